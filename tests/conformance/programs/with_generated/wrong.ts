// Fields that are not so. Only looked at, never run.

import type { components as Control } from "./control.js";
import type { components as Inference } from "./inference.js";

export const model: Control["schemas"]["NewModel"] = { name: "iris", frameworks: "sklearn" };
export const asked: Inference["schemas"]["InferRequest"] = { input: [] };
