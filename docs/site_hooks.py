"""MkDocs hooks: the reference, pages from files outside docs/, and the list of decisions."""

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
DECISIONS = "adr/"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Replace the navigation entry `adr/` by all decisions in order of their numbers."""
    decisions = sorted(path.name for path in (ROOT / "docs" / "adr").glob("[0-9]*.md"))
    for section in config.nav or []:
        for pages in section.values() if isinstance(section, dict) else ():
            for entry in pages if isinstance(pages, list) else ():
                if isinstance(entry, dict) and "Decisions" in entry:
                    entry["Decisions"] = ["adr/index.md", *(DECISIONS + name for name in decisions)]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages whose sources lie outside docs/, and those of the reference."""
    texts = {page: (ROOT / source).read_text() for page, source in SOURCES.items()}
    texts |= {f"reference/{page}": make() for page, make in reference.PAGES.items()}
    for page, text in texts.items():
        files.append(File.generated(config, page, content=text))
    return files
