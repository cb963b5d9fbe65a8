"""Results as plain objects."""

import dataclasses
import html
from typing import Optional

MIB = 1 << 20


def mib(count: Optional[int]) -> str:
    return "-" if count is None else f"{count / MIB:,.1f} MiB"


@dataclasses.dataclass(frozen=True)
class PhasePeak:
    phase: str
    requested_bytes: int
    allocated_bytes: int
    active_bytes: int
    reserved_bytes: int


@dataclasses.dataclass(frozen=True)
class Trial:
    batch_size: int
    purpose: str
    outcome: str
    reason: str
    steps: int
    seconds: float
    peak_reserved_bytes: Optional[int]
    peak_allocated_bytes: Optional[int]
    failed_phase: Optional[str]
    failed_request_bytes: Optional[int]
    allocation_retries: int
    phases: tuple = ()

    @property
    def fits(self) -> bool:
        return self.outcome.startswith("fits")

    @classmethod
    def of(cls, said: dict) -> "Trial":
        names = [field.name for field in dataclasses.fields(cls) if field.name != "phases"]
        phases = tuple(
            PhasePeak(phase, one["peak_requested_bytes"], one["peak_allocated_bytes"], one["peak_active_bytes"], one["peak_reserved_bytes"])
            for phase, one in (said.get("phases") or {}).items()
        )
        return cls(**{name: said.get(name) for name in names}, phases=phases)


@dataclasses.dataclass(frozen=True)
class Result:
    """The answer with its evidence. `batch_size` none: nothing fits. `json`: everything, as `maxbatch find --format json` prints it."""

    batch_size: Optional[int]
    proof: str
    reason: str
    next_batch_size: Optional[int]
    device: str
    device_name: str
    evidence: str
    budget_bytes: int
    peak_reserved_bytes: Optional[int]
    peak_allocated_bytes: Optional[int]
    failed_phase: Optional[str]
    failed_request_bytes: Optional[int]
    short_by_at_least_bytes: Optional[int]
    largest_clean_batch_size: Optional[int]
    steps: int
    seconds: float
    warnings: tuple
    trials: tuple
    json: dict = dataclasses.field(repr=False)

    @classmethod
    def of(cls, said: dict) -> "Result":
        names = [field.name for field in dataclasses.fields(cls) if field.name not in ("batch_size", "warnings", "trials", "json")]
        return cls(
            batch_size=said["largest_batch_size"], warnings=tuple(said["warnings"]), trials=tuple(Trial.of(one) for one in said["trials"]),
            json=said, **{name: said.get(name) for name in names})  # fmt: skip

    def __str__(self) -> str:
        if self.batch_size is None:
            text = "Nothing fits" if self.proof == "nothing fits" else "No size ran"
        else:
            text = f"{self.batch_size} fits: peak reserved {mib(self.peak_reserved_bytes)} of {mib(self.budget_bytes)} ({self.proof})"
        if self.next_batch_size is not None and self.failed_request_bytes is not None:
            short = f", at least {mib(self.short_by_at_least_bytes)} short" if self.short_by_at_least_bytes else ""
            return f"{text}. {self.next_batch_size} does not: {self.failed_phase} asked for {mib(self.failed_request_bytes)}{short}."
        return f"{text}. {self.reason[:1].upper()}{self.reason[1:]}."

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{one.batch_size}</td><td>{html.escape(one.purpose)}</td><td>{html.escape(one.outcome)}</td>"
            f"<td>{mib(one.peak_reserved_bytes)}</td><td>{one.seconds:.2f}</td></tr>"
            for one in self.trials
        )
        heading = "".join(f"<th>{name}</th>" for name in ("batch", "purpose", "outcome", "peak reserved", "seconds"))
        warnings = "".join(f"<p>{html.escape(text)}</p>" for text in self.warnings)
        return (
            f"<p><b>{html.escape(str(self))}</b><br>{html.escape(self.device_name)}, {html.escape(self.evidence)}</p>{warnings}"
            f"<table><thead><tr>{heading}</tr></thead><tbody>{rows}</tbody></table>"
        )
