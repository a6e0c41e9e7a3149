"""Parts that several kinds share, and the rules such parts are made with."""
