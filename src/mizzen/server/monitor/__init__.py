"""/model/{model}/monitor: starts, describes and ends the monitoring tool of a model, proxies browsers to it, and serves
our own comparison of versions, as JSON and as a page.

    sessions    browser sessions: a cookie that is valid for one monitor only, and tickets for it
    sign_in     authentication, and the form for browsers that are not signed in
    lifecycle   POST, GET, DELETE
    proxy       requests between a browser and the tool
    comparison  scalars by step and live figures, as JSON and as a page
    tool_key    the key that a tool requires from the proxy

A monitor always needs a token, even on a plane with anonymous access. Not here: reading the scalars that jobs logged
(runs/scalars).
"""
