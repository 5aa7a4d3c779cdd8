"""Exhaustive models of protocols: every order of steps, crashes and lost answers of a few processes."""
