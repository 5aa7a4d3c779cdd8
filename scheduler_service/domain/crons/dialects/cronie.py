"""cronie: five fields, as `domain.crons` describes them."""

from scheduler_service.domain.crons.expression import Expression, parse_expression


def read_cronie(text: str) -> Expression:
    """Raises InvalidRule."""
    return parse_expression(text)
