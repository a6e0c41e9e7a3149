"""/model/{model}/monitor: the tool over a model, started, found and ended; the way to it for programs and for browsers;
and our own comparison of versions, as JSON and as a page.

    visits      who a browser belongs to: a cookie that is good for one monitor only, and tickets for it
    entering    who gets in, and what a browser is shown who does not
    lifecycle   POST, GET, DELETE
    proxy       what passes between a browser and the tool
    comparison  scalars by step and live figures, as JSON and as a page

Nobody gets in without a token, however open the plane is. Not here: reading what training wrote (runs/scalars).
"""
