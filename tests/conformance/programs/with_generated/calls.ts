// What somebody does with the generated types and openapi-fetch: a model from its file to an answer, and away again.
// Prints what it saw for the test to look at. Words: control URL, inference URL, token, a model's file.

import { readFile } from "node:fs/promises";
import { basename } from "node:path";
import { setTimeout } from "node:timers/promises";
import createClient from "openapi-fetch";
import type { components as Control, paths as ControlPaths } from "./control.js";
import type { components as Inference, paths as InferencePaths } from "./inference.js";

const [controlUrl, inferenceUrl, token, file] = process.argv.slice(2) as [string, string, string, string];
const headers = { Authorization: `Bearer ${token}` };
const control = createClient<ControlPaths>({ baseUrl: controlUrl, headers });
const inference = createClient<InferencePaths>({ baseUrl: inferenceUrl, headers });

const name = "typed";
const at = { params: { path: { model: name } } };

/** What was answered; an error of the API is one of ours, with its words. */
async function got<T>(asked: Promise<{ data?: T; error?: unknown }>): Promise<T> {
  const { data, error } = await asked;
  if (data === undefined) throw new Error(JSON.stringify(error));
  return data;
}

const made = await got(control.POST("/model", { body: { name, framework: "sklearn" } }));

const form = new FormData();
form.append("code", new Blob([await readFile(file)]), basename(file));
const version = await got(
  control.POST("/model/{model}/version/{version}", {
    params: { path: { model: name, version: "auto" } },
    body: { code: file, framework: "sklearn" },
    bodySerializer: () => form,
  }),
);

let server: Control["schemas"]["ServerView"] = await got(
  control.POST("/model/{model}/serve/{version}", { params: { path: { model: name, version: "1" } } }),
);
while (!server.ready) {
  await setTimeout(100);
  const path = { model: name, version: "1", server: server.id ?? "" };
  server = await got(control.GET("/model/{model}/serve/{version}/{server}", { params: { path } }));
}
await got(control.POST("/model/{model}/current", { ...at, body: { version: 1 } }));
const described = await got(control.GET("/model/{model}", at));

const asked: Inference["schemas"]["InferRequest"] = {
  inputs: [{ name: "input", shape: [2, 4], datatype: "FP64", data: [1, 2, 3, 4, 5, 6, 7, 8] }],
};
const answer = await got(inference.POST("/v2/models/{model}/infer", { ...at, body: asked }));
const metadata = await got(inference.GET("/v2/models/{model}", at));
const unready = await inference.GET("/v2/models/{model}/ready", { params: { path: { model: "nobody" } } });

const missing = await control.GET("/model/{model}", { params: { path: { model: "nobody" } } });
const status: Control["schemas"]["Status"] | undefined = missing.error;
await got(control.DELETE("/model/{model}", { params: { ...at.params, query: { cascade: true, wait: true } } }));
const left = await got(control.GET("/model"));

if (typeof answer === "string") throw new Error("bytes, where JSON was asked for");
console.log(
  JSON.stringify({
    created: made.name,
    version: version.version,
    current: described.current,
    outputs: answer.outputs.map((output) => output.data),
    platform: metadata.platform,
    unready: unready.error?.error,
    missing: [missing.response.status, status?.reason],
    left: left.items?.map((model) => model.name),
  }),
);
