"""Pure: frame -> frame. Each closes with an explicit select, so that its columns stand in one place."""
