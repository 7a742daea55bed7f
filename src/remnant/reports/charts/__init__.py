"""Charts as SVG, drawn from run folders."""
