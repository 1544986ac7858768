"""Ask NVIDIA's ptxas about each form of tests/softgpu/grammar_forms.py and write its verdicts.

`./test --long grammar` takes about 10 minutes on two cores.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.softgpu.grammar_forms import forms
from tests.softgpu.grammar_verdicts import TABLE, judge, write_table


def main() -> None:
    every = forms()
    with tempfile.TemporaryDirectory(prefix="busbar-grammar-") as folder:
        verdicts = judge(every, Path(folder))
    write_table(every, verdicts)
    print(f"{TABLE.name}: {sum(verdicts)} of {len(every)} forms are valid")


if __name__ == "__main__":
    main()
