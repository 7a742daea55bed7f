"""Run folders -> pages, tables and pictures; needs no torch to read them."""

from remnant.reports.charts.canvas import on_white
from remnant.reports.charts.run_charts import draw_figures
from remnant.reports.codec_page import write_codec_page
from remnant.reports.comparison import curves_picture, kept_picture, write_comparison
from remnant.reports.result_tables import csv_table, latex_table, markdown_table, terminal_rows
from remnant.reports.run_page import write_report
from remnant.reports.sheets.contact_sheet import draw_gallery
from remnant.reports.sheets.paper_sheets import detail_figure, reconstructions_figure
from remnant.reports.store_page import write_store_page
from remnant.runs.run_folder import RunFolder, find_runs, read_run

__all__ = [
    "RunFolder",
    "csv_table",
    "curves_picture",
    "detail_figure",
    "draw_figures",
    "draw_gallery",
    "find_runs",
    "kept_picture",
    "latex_table",
    "markdown_table",
    "on_white",
    "read_run",
    "reconstructions_figure",
    "terminal_rows",
    "write_codec_page",
    "write_comparison",
    "write_report",
    "write_store_page",
]
