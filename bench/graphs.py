"""`make bench-graphs`: what a request through a graph costs, beside one model alone and nginx.

One plane serves three models of iris, a model that does nothing, and graphs over them. Each graph is loaded in turn
over interleaved rounds, with nginx and the model alone in the same minute. CPU time is that of the whole plane, and of
its gateway by itself: what a graph adds arises there. `apart` is all three models without a graph, each request to one
of them by chance: what a choice between three costs that is not the graph's doing, such as smaller batches.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml

from bench import contestants, graph_figures, load, members, report
from bench.graph_figures import APART, FLOOR, MODEL
from bench.peers import questions, tables
from bench.run import THREADS, missing_programs, progress, rotated, window

RESULTS = contestants.HERE / "results" / "graphs.json"
NOOP_PROGRAM = contestants.HERE / "peers" / "programs" / "noop.py"
SHAPES = {
    "ensemble": members.ensemble(),
    "split": members.split(),
    "egreedy": members.egreedy(),
    "chain1": members.chain(1),
    "chain5": members.chain(5),
}
NAMES = (FLOOR, MODEL, APART, *SHAPES)
BUILDERS = {"deep": members.chain, "passing": members.passing, "wide": members.wide}
QUESTION = {"inputs": [{"name": "input", "shape": [1, 4], "datatype": "FP64", "data": members.ROW}]}


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also when a shell started this with SIGINT ignored
    os.environ.update(dict.fromkeys(THREADS, "1"))
    if problem := missing_programs("nginx" in options.only):
        print(problem, file=sys.stderr)
        return 1
    # Short, because unix sockets live below it.
    with tempfile.TemporaryDirectory(prefix="mzg-") as folder:
        return measure(Path(folder).resolve(), options)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-graphs", description="What a request through a graph costs.")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds; figures are medians over them")
    parser.add_argument("--seconds", type=int, default=3, help="length of one window")
    parser.add_argument("--connections", type=_numbers, default=[16, 64], metavar="N,N", help="default 16,64")
    parser.add_argument("--only", type=_names, default=list(NAMES), metavar="A,B", help=f"of {', '.join(NAMES)}")
    parser.add_argument(
        "--sizes", type=_numbers, default=[1, 10, 50, 100, 200], metavar="N,N",
        help="of the graphs whose cost is to grow evenly; 0: none of them",
    )  # fmt: skip
    parser.add_argument("-o", "--output", type=Path, default=RESULTS, metavar="FILE", help="all figures as JSON")
    options = parser.parse_args(arguments)
    if unknown := set(options.only) - set(NAMES):
        parser.error(f"no {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    options.sizes = [size for size in options.sizes if size]
    return options


@dataclass
class Plane(contestants.Mizzen):
    """A plane with all models of a run, and graphs over them."""

    def start(self) -> None:
        self._cli("up", "--detach", "--port", "0", "--inference-port", "0", "--grpc-port", "0", "--tls-port", "0")
        for name, file in members.train(self.folder / "members").items():
            self._cli("deploy", str(file), "--name", name)
        self._serve_noop()
        self.url = json.loads(self._cli("status", "-o", "json"))["inference_url"].rstrip("/")

    def open(self, graphs: Mapping[str, members.Nodes]) -> list[Door]:
        """Serve them, too, until each answers rightly."""
        if graphs:
            self._apply("graphs.yaml", [members.graph(name, nodes) for name, nodes in graphs.items()])
        return [self.door(name) for name in graphs]

    def door(self, name: str) -> Door:
        """To something that is served."""
        labels = tuple([float(label)] for label in members.LABELS)
        right = {
            MODEL: labels[:1],
            APART: labels,
            "ensemble": ([members.MEAN],),
            "split": labels,
            "egreedy": labels,
        }.get(name, (members.ROW,))
        served = {MODEL: members.MEMBERS[:1], APART: members.MEMBERS}.get(name, (name,))
        found = Door(name, served, right, self)
        found.start()
        return found

    def _serve_noop(self) -> None:
        name = members.NOOP
        self._cli("model", "create", name)
        self._cli("version", "add", name, str(NOOP_PROGRAM), "--entrypoint", "noop:Noop")
        server = {"modelName": name, "targetVersion": "1", "deployToLayer": "cloud", "frameworkType": "python"}
        spec = {**server, "batching": {"batchSize": 64}}
        kind = {"apiVersion": "mizzen.dev/v1alpha1", "kind": "InferenceModel", "metadata": {"name": name}}
        self._apply("noop.yaml", [{**kind, "spec": spec}])

    def _apply(self, file: str, manifests: Sequence[object]) -> None:
        path = self.folder / file
        path.write_text(yaml.safe_dump_all(manifests, sort_keys=False))
        self._cli("apply", "-f", str(path), "--wait")


@dataclass
class Door:
    """One name that the plane answers for, as a contestant."""

    name: str
    served: tuple[str, ...]
    """What it is called by: each request by one of these."""
    right: tuple[list[float], ...]
    """Any of these is."""
    plane: Plane

    @property
    def url(self) -> str:
        return self.plane.url + "#".join(f"/v2/models/{name}/infer" for name in self.served)

    def start(self) -> None:
        deadline = time.monotonic() + contestants.START_SECONDS
        seen = "nothing"
        while time.monotonic() < deadline:
            try:
                status, answer = contestants.ask(self.url.partition("#")[0], QUESTION)
            except (OSError, http.client.HTTPException) as error:
                status, answer = 0, str(error)
            seen = f"{status} {str(answer)[:300]}"
            if status == 200:
                given = answer["outputs"][0]["data"]
                if any(questions.is_right(given, right) for right in self.right):
                    return
                break
            time.sleep(0.05)
        raise contestants.StartFailed(f"{self.name}: where one of {self.right} is right, it answered {seen}")

    def processes(self) -> dict[int, str]:
        return self.plane.processes()

    def stop(self) -> None:
        """With the plane."""


def measure(folder: Path, options: argparse.Namespace) -> int:
    question = folder / "question.json"
    question.write_text(json.dumps(QUESTION))
    plane = Plane(folder, folder)
    started: list[contestants.Contestant] = []
    windows: list[report.Window] = []
    try:
        if FLOOR in options.only:
            started.append(contestants.nginx(folder))
            started[-1].start()
        print("starting a plane ...", flush=True)
        started.append(plane)
        plane.start()
        doors = plane.open({name: nodes for name, nodes in SHAPES.items() if name in options.only})
        doors[:0] = [plane.door(name) for name in (MODEL, APART) if name in options.only]
        windows += rounds([*started[:-1], *doors], question, options, options.connections)
        # Afterwards, so that the figures above are those of a plane with few graphs.
        sized = {f"{name}{size}": make(size) for name, make in BUILDERS.items() for size in options.sizes}
        windows += rounds(plane.open(sized), question, options, options.connections[:1])
    except (contestants.StartFailed, load.LoadFailed) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted; stopping the servers.", file=sys.stderr)
        return 130
    finally:
        for server in reversed(started):
            server.stop()
    show(windows, options)
    return 0


def rounds(
    lineup: Sequence[contestants.Contestant], question: Path, options: argparse.Namespace, connections: Sequence[int]
) -> Iterator[report.Window]:
    for server in lineup:
        load.run(server.url, question, connections=8, seconds=1)  # warm
    for round_ in range(options.rounds if lineup else 0):
        for number in connections:
            for server in rotated(lineup, round_):
                done = window(server, question, number, round_ + 1, options.seconds)
                progress(done)
                yield done


def show(windows: list[report.Window], options: argparse.Namespace) -> None:
    found = graph_figures.costs(windows)
    lines = graph_figures.lines(found, options.connections, options.sizes)
    noise = report.noise(windows)
    print(f"\n{graph_figures.whole_table(found)}\n\n{tables.figure_table(lines)}\n\n{noise}")
    machine = {"cores": os.cpu_count(), "kernel": platform.release(), "python": platform.python_version()}
    everything = {
        "machine": machine,
        "noise": noise,
        "figures": list(map(asdict, lines)),
        "windows": list(map(asdict, windows)),
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(everything, indent=1) + "\n")
    print(f"\nAll figures: {os.path.relpath(options.output)}")


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _names(text: str) -> list[str]:
    return text.split(",")


if __name__ == "__main__":
    sys.exit(main())
