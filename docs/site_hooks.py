"""MkDocs hook: the reference, and pages from files outside docs/."""

from __future__ import annotations

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from deploy import reference

ROOT = Path(__file__).resolve().parent.parent
SOURCES = {
    "architecture.md": "ARCHITECTURE.md",
    "protocol.md": "remoting/PROTOCOL.md",
    "security.md": "SECURITY.md",
    "changelog.md": "CHANGELOG.md",
}
"""Page of the site to source file. These files stay where readers of the repository expect them."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages whose sources lie outside docs/, and those of the reference.

    The sources link to documents from the root of the repository, the site from its own.
    """
    texts = {
        page: (ROOT / source).read_text().replace("](docs/", "](")
        for page, source in SOURCES.items()
    }
    texts |= {f"reference/{page}": make() for page, make in reference.PAGES.items()}
    for page, text in texts.items():
        files.append(File.generated(config, page, content=text))
    return files
