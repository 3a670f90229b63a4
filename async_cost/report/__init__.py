"""Pages, charts and tables."""


class PublishError(Exception):
    """A notebook cannot be published; the message names the file and what is wrong with it."""
