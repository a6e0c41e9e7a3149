"""Commands on models, versions, graphs and scaling, and how graphs are drawn in a terminal."""
