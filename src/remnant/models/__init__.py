"""Networks: nn.Modules only, none of which computes its own loss."""
