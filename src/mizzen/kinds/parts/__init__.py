"""Parts that several kinds share, and the rules that such parts are built with."""
