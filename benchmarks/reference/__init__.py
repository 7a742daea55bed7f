"""The pages of docs/reference and the schema files of the package, made from the code."""
