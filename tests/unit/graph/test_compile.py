from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from mizzen.graph import table_types
from mizzen.graph.compile.table import compile_table
from mizzen.graph.table_types import ConstantOutput, Plan, Route, Server, Table
from mizzen.kinds.schema.resource import Resource
from tests.support.controllers.objects import inference_model, model, workload


def compiled(*resources: Resource) -> Table:
    def of(kind: str) -> list[Resource]:
        return [resource for resource in resources if resource.kind == kind]

    return compile_table(of("Model"), of("InferenceModel"), of("Workload"), 7)


def route(table: Table, name: str, namespace: str = "default") -> Route:
    [found] = [entry for entry in table.routes if (entry.namespace, entry.name) == (namespace, name)]
    return found


def servers(table: Table, name: str) -> tuple[str, ...]:
    return route(table, name).plan.servers


def test_a_served_version_answers_to_its_own_name_and_to_the_model() -> None:
    table = compiled(model(current="1"), inference_model("iris-1", serving="1"), workload("iris-1.1", "ready", "ready"))
    mine = Plan(servers=("default/iris-1",))
    assert table == Table(
        serial=7,
        servers=(
            Server(
                id="default/iris-1",
                model="iris",
                version="1",
                addresses=("unix:/iris-1.1.0", "unix:/iris-1.1.1"),
            ),
        ),
        routes=(
            Route(namespace="default", name="iris", version="1", plan=mine, versions={"1": mine}),
            Route(namespace="default", name="iris-1", version="1", model="iris", plan=mine, versions={"1": mine}),
        ),
    )


def test_settings_of_a_server() -> None:
    resource = inference_model("a", serving="1", timeoutMs=5, idempotent=False, batching={"batchSize": 3})
    [server] = compiled(resource, workload("a.1", "ready")).servers
    assert (server.timeout_ms, server.idempotent, server.batch_size) == (5, False, 3)
    assert (server.batch_auto, server.batch_wait) == (False, 0.0)


def test_a_cache_has_bytes() -> None:
    of: dict[str, dict[str, Any]] = {"a": {}, "b": {"cache": None}, "c": {"cache": {"maxBytes": 1000}}}
    resources = [inference_model(name, serving="1", **given) for name, given in of.items()]
    table = compiled(*resources, *(workload(f"{name}.1", "ready") for name in of))
    assert [server.cache_bytes for server in table.servers] == [0, 32 << 20, 1000]


TENSOR = {"name": "y", "datatype": "INT64", "shape": [1, 2], "data": [[1, 2]]}


def test_a_default_answers_for_a_name_whether_or_not_anybody_else_does() -> None:
    given: dict[str, Any] = {"defaultOutput": [TENSOR]}
    constant = ConstantOutput(name="y", datatype="INT64", shape=(1, 2), data=[1, 2], each_row=True)
    served = compiled(
        model(current="1"), inference_model("iris-1", serving="1", **given), workload("iris-1.1", "ready")
    )
    stopped = compiled(model(current="1"), inference_model("iris-1", serving="1", **given), workload("iris-1.1"))
    starting = compiled(inference_model("iris-1", **given))
    for table, names in ((served, ("iris", "iris-1")), (stopped, ("iris", "iris-1")), (starting, ("iris-1",))):
        assert [route(table, name).plan.default for name in names] == [(constant,)] * len(names)
    assert servers(stopped, "iris") == ()


def test_a_default_is_repeated_where_its_output_has_rows() -> None:
    for shape, each_row in (([-1, 2], True), ([1, 2], False)):
        outputs = [{"name": "y", "datatype": "INT64", "shape": shape}]
        declared = inference_model("a", serving="1", defaultOutput=[TENSOR], outputs=outputs)
        said = inference_model("a", serving="1", defaultOutput=[TENSOR])
        said = replace(said, status={**said.status, "signature": {"inputs": [], "outputs": outputs}})
        for resource in (declared, said):
            [constant] = route(compiled(resource), "a").plan.default
            assert constant.each_row is each_row


def test_several_servers_of_a_version_have_one_default() -> None:
    one = inference_model("a", serving="1")
    other = inference_model("b", serving="1", defaultOutput=[TENSOR])
    table = compiled(model(current="1"), one, other, workload("a.1", "ready"), workload("b.1", "ready"))
    found = route(table, "iris").plan
    assert (found.servers, len(found.default)) == (("default/a", "default/b"), 1)
    assert route(table, "a").plan.default == ()


def test_replicas_answer_for_the_files_of_the_version_that_answers_whatever_they_are_to_have_next() -> None:
    resource = inference_model("a", "2", serving="1")
    resource = replace(resource, status={**resource.status, "servingFiles": "those of 1"})
    [server] = compiled(resource, workload("a.1", "ready", artifacts=[], began="those of 1")).servers
    assert (server.version, server.files) == ("1", "those of 1")


def test_batches_that_find_their_size_and_wait_to_fill() -> None:
    batching = {"batchSize": "auto", "timeoutSeconds": 0.25}
    resource = inference_model("a", serving="1", timeoutMs=500, batching=batching)
    [server] = compiled(resource, workload("a.1", "ready")).servers
    assert (server.batch_auto, server.batch_wait, server.batch_size) == (True, 0.25, 4096)


def test_a_replica_that_comes_back_keeps_its_address() -> None:
    states = ("ready", "waiting", "failed", "starting", "stopping")
    [server] = compiled(inference_model("a", serving="1"), workload("a.1", *states)).servers
    assert server.addresses == ("unix:/a.1.0", "unix:/a.1.1", "unix:/a.1.3", "unix:/a.1.4")


def test_a_replica_that_is_not_wanted_any_more_has_no_address() -> None:
    [server] = compiled(inference_model("a", serving="1"), workload("a.1", "ready", "ready", replicas=1)).servers
    assert server.addresses == ("unix:/a.1.0",)
    [server] = compiled(inference_model("a", serving="1"), workload("a.1", "ready", deleting=True)).servers
    assert server.addresses == ()
    [server] = compiled(inference_model("a", serving="1"), workload("a.1", "ready", replicas="?")).servers
    assert server.addresses == ("unix:/a.1.0",), "how many are wanted cannot be read, and this one is there"


def test_a_model_asks_all_servers_of_its_current_version_and_knows_the_others() -> None:
    table = compiled(
        model(current="2"),
        inference_model("b", "2", serving="2"), workload("b.2", "ready"),
        inference_model("a", "2", serving="2"), workload("a.2", "ready"),
        inference_model("c", "1", serving="1"), workload("c.1", "ready"),
        inference_model("other", "2", serving="2", model_name="rose"), workload("other.2", "ready"),
    )  # fmt: skip
    iris = route(table, "iris")
    assert iris.version == "2"
    assert iris.plan == Plan(servers=("default/a", "default/b"))
    assert iris.versions == {"1": Plan(servers=("default/c",)), "2": iris.plan}


def test_during_a_switch_the_version_that_answers_is_routed() -> None:
    table = compiled(inference_model("a", "2", serving="1"), workload("a.1", "ready"), workload("a.2", "starting"))
    [server] = table.servers
    assert (server.version, server.addresses) == ("1", ("unix:/a.1.0",))
    assert route(table, "a").version == "1"


def test_a_name_without_anybody_behind_it_has_an_empty_plan() -> None:
    table = compiled(
        model(current="3"),
        inference_model("starting", "1"), workload("starting.1", "starting"),
        inference_model("lost", serving="1"),
        inference_model("scaled-down", serving="1", replicas=0), workload("scaled-down.1"),
    )  # fmt: skip
    assert {entry.name: entry.plan.servers for entry in table.routes} == {
        "iris": (), "starting": (), "lost": (), "scaled-down": (),
    }  # fmt: skip
    assert route(table, "starting").version == "1"
    assert all(not entry.versions for entry in table.routes)


def test_a_server_without_replicas_is_passed_over_while_another_has_some() -> None:
    table = compiled(
        model(current="1"),
        inference_model("a", serving="1", replicas=0), workload("a.1"),
        inference_model("b", serving="1"), workload("b.1", "ready"),
    )  # fmt: skip
    assert servers(table, "iris") == ("default/b",)


def test_a_server_that_rests_is_asked_all_the_same_unless_it_cannot_start() -> None:
    scale = {"minReplicas": 0, "maxReplicas": 2}
    resource = inference_model("a", serving="1", autoScale=scale)

    def told(*states: str, **more: Any) -> tuple[bool, bool, str, tuple[str, ...]]:
        table = compiled(
            model(current="1"), replace(resource, spec={**resource.spec, **more}), workload("a.1", *states)
        )
        [server] = table.servers
        return server.scaled, server.wakes, server.phase, servers(table, "iris")

    asked = ("default/a",)
    assert told() == (True, True, "scaled to zero", asked)
    assert told("starting") == (True, True, "one is starting", asked)
    assert told("ready") == (True, True, "", asked)
    assert told("failed") == (True, False, "", ())
    assert told(autoScale={**scale, "minReplicas": 1}) == (True, False, "", ())
    assert told(replicas=0) == told(deployToLayer="edge") == (False, False, "", ())


def test_who_wins_a_name() -> None:
    served = (model(current="1"), inference_model("iris-1", serving="1"), workload("iris-1.1", "ready"))
    assert servers(compiled(*served, inference_model("iris", "2")), "iris") == ("default/iris-1",)
    winner = (inference_model("iris", "2", serving="2"), workload("iris.2", "ready"))
    assert servers(compiled(*served, *winner), "iris") == ("default/iris",)


def test_a_server_that_takes_the_name_of_its_model_leaves_versions_and_aliases_callable() -> None:
    iris = with_status(model(current="1"), aliases={"prod": "1"})
    table = compiled(iris, *SERVED, inference_model("iris", "2", serving="2"), workload("iris.2", "ready"))
    found = route(table, "iris")
    assert (found.version, found.plan, found.aliases) == ("2", Plan(servers=("default/iris",)), {"prod": "1"})
    assert found.versions == {"1": Plan(servers=("default/a",)), "2": found.plan}
    away = compiled(iris, *SERVED, inference_model("iris", "2", serving="2"), workload("iris.2", "failed"))
    assert servers(away, "iris") == ("default/b",), "another server of its version has somebody"
    other = inference_model("iris", "2", serving="2", model_name="rose")
    assert not route(compiled(iris, *SERVED, other, workload("iris.2", "ready")), "iris").aliases


def test_a_name_that_changes_hands_is_always_answered() -> None:
    """A server of that name is made, starts, serves, goes away and is gone."""
    model_alone = (model(current="1"), *SERVED)
    steps = [
        (inference_model("iris", "2"),),
        (inference_model("iris", "2"), workload("iris.2", "starting")),
        (inference_model("iris", "2", serving="2"), workload("iris.2", "ready")),
        (inference_model("iris", "2", serving="2", deleting=True), workload("iris.2", "ready")),
        (),
    ]
    tables = [compiled(*model_alone, *step) for step in steps]
    assert [servers(table, "iris") for table in tables] == [
        ("default/a",), ("default/a",), ("default/iris",), ("default/a",), ("default/a",),
    ]  # fmt: skip


def test_what_is_going_or_broken_is_left_out_alone() -> None:
    table = compiled(
        model(current="1", deleting=True),
        inference_model("going", serving="1", deleting=True), workload("going.1", "ready"),
        inference_model("broken", replicas="many"), workload("broken.1", "starting"),
        inference_model("nobodys", serving="1", modelName=[]), workload("nobodys.1", "ready"),
        inference_model("fine", serving="1"), workload("fine.1", "ready"),
    )  # fmt: skip
    assert [entry.name for entry in table.routes] == ["fine"]
    assert [server.id for server in table.servers] == ["default/fine"]


def test_what_serves_goes_on_by_what_can_be_read_of_it() -> None:
    broken = inference_model("a", "1", serving="1", targetVersion={}, replicas="many", timeoutMs=5)
    table = compiled(model(current="1"), broken, workload("a.1", "ready"))
    [server] = table.servers
    assert (server.version, server.addresses, server.timeout_ms) == ("1", ("unix:/a.1.0",), 5)
    assert servers(table, "a") == servers(table, "iris") == ("default/a",)


def test_a_broken_status_concerns_its_object_alone() -> None:
    def status(resource: Resource, **fields: object) -> Resource:
        return replace(resource, status={**resource.status, **fields})

    table = compiled(
        status(model(current="1"), current=7),
        status(inference_model("a", serving="1"), conditions="none"), workload("a.1", "ready"),
        status(inference_model("b", serving="1"), servingVersion=[]), workload("b.1", "ready"),
        inference_model("c", serving="1"), status(workload("c.1", "ready"), replicas=[{"index": "first"}]),
        inference_model("d", serving="1"), workload("d.1", "ready"),
    )  # fmt: skip
    assert {entry.name: len(entry.plan.servers) for entry in table.routes} == {"a": 1, "b": 0, "c": 0, "d": 1}


def test_namespaces_do_not_mix() -> None:
    def elsewhere(resource: Resource) -> Resource:
        return replace(resource, meta=replace(resource.meta, namespace="team"))

    served = (inference_model("a", serving="1"), workload("a.1", "ready"))
    table = compiled(*served, *map(elsewhere, served), elsewhere(model(current="1")))
    assert route(table, "iris", "team").plan == Plan(servers=("team/a",))
    assert [server.id for server in table.servers] == ["default/a", "team/a"]


def with_status(resource: Resource, **fields: object) -> Resource:
    return replace(resource, status={**resource.status, **fields})


SERVED = (
    inference_model("a", "1", serving="1"), workload("a.1", "ready"),
    inference_model("b", "2", serving="2"), workload("b.2", "ready"),
)  # fmt: skip


def test_an_alias_stands_for_the_version_that_answers_for_it() -> None:
    wanted = {"prod": "2", "old": "9"}
    iris = with_status(model(current="1", aliases=wanted), aliases={"prod": "1", "old": "9"})
    found = route(compiled(iris, *SERVED), "iris")
    assert found.aliases == {"old": "9", "prod": "1"}
    assert set(found.versions) == {"1", "2"}


def test_a_second_name_answers_like_the_first() -> None:
    iris = with_status(model(current="2"), aliases={"prod": "1"})
    lily = with_status(model("lily", aliasOf="iris"), aliasOf="iris")
    fixed = with_status(model("fixed", aliasOf="iris:1"), aliasOf="iris:1")
    table = compiled(iris, lily, fixed, *SERVED)
    assert route(table, "lily") == structs.replace(route(table, "iris"), name="lily", model="iris")
    mine = Plan(servers=("default/a",))
    assert route(table, "fixed") == Route(
        namespace="default", name="fixed", version="1", model="iris", plan=mine, versions={"1": mine}
    )


def test_a_second_name_keeps_to_what_answers_and_never_chains() -> None:
    table = compiled(
        model(current="1"),
        with_status(model("moving", aliasOf="rose"), aliasOf="iris"),
        model("new", aliasOf="iris"),
        with_status(model("chain", aliasOf="moving"), aliasOf="moving"),
        with_status(model("lost", aliasOf="gone"), aliasOf="gone"),
        with_status(model("odd", aliasOf="iris"), aliasOf="No Reference"),
        with_status(model("unserved", aliasOf="iris:7"), aliasOf="iris:7"),
        *SERVED,
    )
    assert servers(table, "moving") == ("default/a",)
    assert route(table, "unserved").plan == Plan(servers=())
    assert not {"new", "chain", "lost", "odd"} & {entry.name for entry in table.routes}


def reference_routes(models: list[Resource]) -> dict[str, str]:
    """Slowly: the version each model's name stands for, looked up by hand."""
    found = {}
    for one in models:
        status = one.status
        text = str(status.get("aliasOf") or "")
        name, _, fixed = text.partition(":")
        [*first] = [other for other in models if other.meta.name == name and not other.deleting]
        if one.deleting:
            continue
        if not text:
            if status.get("current"):
                found[one.meta.name] = status["current"]["version"]
        elif not (first and first[0].status.get("aliasOf")):
            version = fixed or (first and (first[0].status.get("current") or {}).get("version"))
            if version:
                found[one.meta.name] = version
    return found


MODELS = st.builds(
    lambda name, current, alias_of, deleting: with_status(
        model(name, current=current, deleting=deleting), **({"aliasOf": alias_of} if alias_of else {})
    ),
    st.sampled_from(("m", "n", "o", "p")),
    st.none() | st.sampled_from(("1", "2", "7")),
    st.none() | st.sampled_from(("m", "n", "o", "m:1", "n:2", "o:7")),
    st.booleans(),
)


@given(st.lists(MODELS, unique_by=lambda resource: resource.ref))
def test_every_name_stands_for_the_version_a_slow_reference_finds(models: list[Resource]) -> None:
    table = compiled(*models, *SERVED)
    names = {entry.name: entry.version for entry in table.routes if entry.name not in ("a", "b")}
    assert names == reference_routes(models)


@given(st.lists(MODELS, unique_by=lambda resource: resource.ref))
def test_models_that_tell_nothing_may_be_left_out(models: list[Resource]) -> None:
    telling = [one for one in models if one.status.get("current") or one.status.get("aliasOf")]
    assert compiled(*telling, *SERVED) == compiled(*models, *SERVED)


VERSIONS = st.sampled_from(("1", "2", "beta"))
NAMES = st.sampled_from(("iris", "a", "b"))
STATES = st.sampled_from(("ready", "starting", "waiting", "failed", "stopping"))
RESOURCES = st.one_of(
    st.builds(lambda current: model(current=current), st.none() | VERSIONS),
    st.builds(
        lambda name, target, serving: inference_model(name, target, serving=serving),
        NAMES,
        VERSIONS,
        st.none() | VERSIONS,
    ),
    st.builds(
        lambda name, version, states: workload(f"{name}.{version}", *states),
        NAMES,
        VERSIONS,
        st.lists(STATES, max_size=2),
    ),
)


@given(st.lists(RESOURCES, unique_by=lambda resource: resource.ref))
def test_any_state_gives_a_sound_table(resources: list[Resource]) -> None:
    table = compiled(*resources)
    assert table_types.decode(table_types.encode(table)) == table
    known = {server.id: server for server in table.servers}
    assert len(known) == len(table.servers)
    assert len({(entry.namespace, entry.name) for entry in table.routes}) == len(table.routes)
    for entry in table.routes:
        assert entry.versions.get(entry.version, Plan(servers=())) == entry.plan
        for version, compiled_plan in entry.versions.items():
            assert compiled_plan.servers
            for server in map(known.__getitem__, compiled_plan.servers):
                assert server.version == version
                assert server.addresses
    assert compiled(*reversed(resources)) == table
