"""Verdicts of NVIDIA's ptxas about the forms of grammar_forms.py, kept as a table of bits."""

from __future__ import annotations

import concurrent.futures
import hashlib
import re
import subprocess
from pathlib import Path

from tests.softgpu.grammar_forms import LINE, Form
from tests.softgpu.test_random_programs import ptxas

TABLE = Path(__file__).with_name("grammar_verdicts.txt")
WIDTH = 96  # of a line of the table, in characters
BATCH, CPU_SECONDS = 60, 5
# One statement, perhaps with vectors and `::`: no label, no block.
PLAIN = r"([^;:{}/\"]|::)"
STATEMENT = rf"{PLAIN}+({{{PLAIN}*}}{PLAIN}*)*;"


def run_ptxas(text: str, path: Path) -> tuple[bool, str]:
    """Return whether ptxas accepts a module, and its messages."""
    path.write_text(text)
    options = ["--compile-only", "-arch=sm_120a", "-O0", "-o", str(path.with_suffix(".out"))]
    # Some invalid operands make ptxas run forever.
    command = ["prlimit", f"--cpu={CPU_SECONDS}", ptxas(), *options, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode == 0, done.stderr


def is_accepted(form: Form, path: Path) -> bool:
    return run_ptxas(form.module(), path)[0]


def judge_apart(batch: list[Form], path: Path) -> dict[Form, bool]:
    """Judge the halves of a batch that ptxas fails on without naming a line."""
    if len(batch) == 1:
        return {batch[0]: is_accepted(batch[0], path)}
    half = len(batch) // 2
    return judge_together(batch[:half], path) | judge_together(batch[half:], path)


def judge_together(batch: list[Form], path: Path) -> dict[Form, bool]:
    """Judge forms of a body that are one statement: kernels of one module, until all are valid."""
    left, verdicts = list(batch), dict.fromkeys(batch, True)
    while left:
        head, kernel = batch[0].module().split("\n.visible", 1)
        opening = ".visible" + kernel.split("\n", 1)[0]
        lines = [
            opening.replace(" k(", f" k{i}(", 1) + f" {form.text} ret; }}"
            for i, form in enumerate(left)
        ]
        accepted, messages = run_ptxas(
            "\n".join([head, *lines, ".entry k() { ret; }"]) + "\n", path
        )
        if accepted:
            break
        found = re.findall(rf"{re.escape(str(path))}, line (\d+); (?:error|fatal) ", messages)
        wrong = {int(n) - LINE + 1 for n in found}
        if not wrong:  # ptxas failed without a line, or names one of its own text
            return verdicts | judge_apart(left, path)
        verdicts |= {left[i]: False for i in wrong}
        left = [form for i, form in enumerate(left) if i not in wrong]
    return verdicts


def judge(forms: list[Form], folder: Path, workers: int = 2) -> list[bool]:
    """Return for each form whether ptxas accepts it."""
    simple = [f for f in forms if not f.in_module and re.fullmatch(STATEMENT, f.text)]
    batches = [simple[i : i + BATCH] for i in range(0, len(simple), BATCH)]
    others = [form for form in forms if form not in set(simple)]
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        verdicts: dict[Form, bool] = {}
        paths = (folder / f"batch-{i}.ptx" for i in range(len(batches)))
        for judged in pool.map(judge_together, batches, paths):
            verdicts |= judged
        single = (folder / f"form-{i}.ptx" for i in range(len(others)))
        verdicts |= zip(others, pool.map(is_accepted, others, single), strict=True)
    return [verdicts[form] for form in forms]


def digest(forms: list[Form]) -> str:
    return hashlib.sha256("\0".join(form.module() for form in forms).encode()).hexdigest()[:32]


def write_table(forms: list[Form], verdicts: list[bool]) -> None:
    bits = "".join("01"[v] for v in verdicts)
    text = f"{int('1' + bits, 2):x}"
    lines = [text[i : i + WIDTH] for i in range(0, len(text), WIDTH)]
    TABLE.write_text("\n".join([digest(forms), *lines]) + "\n")


def read_table(forms: list[Form]) -> list[bool]:
    """Return the verdict of each form.

    Raises:
        ValueError: the table was made for other forms.
    """
    made_for, *lines = TABLE.read_text().split()
    if made_for != digest(forms):
        raise ValueError("the forms have changed: run ./test --long grammar")
    return [bit == "1" for bit in f"{int(''.join(lines), 16):b}"[1:]]
