"""What a run or a budget will take, before anything is trained."""
