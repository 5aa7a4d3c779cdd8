"""Pure: frame -> frame. Each closes with an explicit select, so that its columns are listed in one place."""
