"""What differs between a recorded process and a dry one, how much, and why."""

import bisect
import collections
import dataclasses
import itertools
import pathlib

SEGMENT_ACTIONS = ("segment_alloc", "segment_free", "segment_map", "segment_unmap")
# Causes, from the most to the least exact.
EXACT = "-"
ADDRESS_ORDER = "address order"
FREE_ORDER = "order of frees"  # another one than recorded, and the same in every dry run
DRAWN_FREE_ORDER = "order of frees, another in every process"  # threads, and hash maps of pointers: autocast's cache
CONVOLUTION = "convolution workspace without a table"
COUNTS = "data-dependent counts"
OTHER_STEPS = "recorded by other steps"
UNEXPLAINED = "unexplained"
# Their sizes follow what the card computed.
DETECTORS = ("frcnn", "retinanet")


def known_differences() -> dict:
    """The cause of each recording that known_differences.txt names."""
    lines = (pathlib.Path(__file__).parent / "known_differences.txt").read_text(encoding="utf-8").splitlines()
    rows = [line.split(maxsplit=1) for line in lines if line.strip() and not line.startswith("#")]
    return {name: cause.strip() for name, cause in rows}


@dataclasses.dataclass
class Comparison:
    cause: str
    marks: list  # (label, allocated peak, reserved peak, reserved) as differences in bytes, dry less recorded
    marks_missing: int
    events_equal: int  # how many agree from the first one on
    events: int  # of the recording
    dry_events: int
    first_difference: str  # what came where the sequences part
    allocations_equal: bool  # sizes and streams of all allocations, in order
    segments_equal: bool  # actions, sizes, streams, in order
    reserved_peak: int  # by the segment logs; dry less recorded
    address_agreement: float  # of pairs of segments, the share in the same order of addresses
    blocks_equal: bool  # every allocation in the same segment at the same offset

    @property
    def exact(self) -> bool:
        return self.cause == EXACT


def client_events(events: list, actions: set) -> list:
    # A refused request's size is compared; how much was free is not, since the device of the recording was shared with a context.
    return [(e.action, e.size, e.stream) for e in events if e.action in actions and e.action not in SEGMENT_ACTIONS]


def segment_log(events: list) -> list:
    return [(e.action, e.size, e.stream) for e in events if e.action in SEGMENT_ACTIONS]


def reserved_peak(log: list) -> int:
    reserved, peak = 0, 0
    for action, size, _ in log:
        reserved += size if action in ("segment_alloc", "segment_map") else -size
        peak = max(peak, reserved)
    return peak


def address_agreement(recorded: list, dry: list) -> float:
    """Of all pairs of segments bought one after the other, the share whose addresses stand in the same order in both logs.

    Not a byte of any statistic hangs on it alone, and a real card draws some places anew in every process.
    """
    bought = [[e.address for e in side if e.action in ("segment_alloc", "segment_map")] for side in (recorded, dry)]
    pairs = list(itertools.combinations(zip(*bought), 2))
    return sum((a[0] < b[0]) == (a[1] < b[1]) for a, b in pairs) / len(pairs) if pairs else 1.0


def block_places(events: list) -> list:
    """Each allocation as (the segment it begins in, by how many allocations came before it; its offset there)."""
    starts, bought_after, places = [], {}, []
    for event in events:
        if event.action in ("segment_alloc", "segment_map"):
            if event.address not in bought_after:
                bisect.insort(starts, event.address)
            bought_after[event.address] = len(places)
        elif event.action in ("segment_free", "segment_unmap") and event.address in bought_after:
            starts.remove(event.address)
            del bought_after[event.address]
        elif event.action == "alloc":
            at = bisect.bisect_right(starts, event.address) - 1
            places.append((bought_after[starts[at]], event.address - starts[at]) if at >= 0 else None)
    return places


def common_prefix(left: list, right: list) -> int:
    for i, (a, b) in enumerate(zip(left, right)):
        if a != b:
            return i
    return min(len(left), len(right))


def describe_difference(recorded: list, dry: list, at: int) -> str:
    tell = lambda events: f"{events[at][0]} {events[at][1]}" if at < len(events) else "the end"
    return "" if at == len(recorded) == len(dry) else f"{tell(recorded)} recorded, {tell(dry)} dry"


def up_to_the_failure(events: list) -> list:
    """Without what stands behind the refusal that ended the run, if one did: there, threads of the program free what they held, as
    many of them as are through by the time that the events are read."""
    last = max((i for i, event in enumerate(events) if event[0] in ("alloc", "a", "oom")), default=-1)
    return events[: last + 1] if last >= 0 and events[last][0] == "oom" else events


def only_frees_moved(recorded: list, dry: list) -> bool:
    """The same allocations in the same order, and between them the same frees, some of them sooner or later."""
    recorded, dry = up_to_the_failure(recorded), up_to_the_failure(dry)
    requests = lambda events: [e for e in events if e[0] in ("alloc", "a")]
    return requests(recorded) == requests(dry) and collections.Counter(recorded) == collections.Counter(dry)


def is_drawn(one_run: list, another: list) -> bool:
    """Whether two dry runs of the same steps differ in just the way that a recording does."""
    one, other = [client_events(run, {e.action for e in run}) for run in (one_run, another)]
    return one != other and only_frees_moved(one, other)


def compare(recorded_events, recorded_marks, dry_events, dry_marks, questions: int, counts: int, other_steps: bool) -> Comparison:
    """`questions`: convolutions whose workspace no table of the card knew. `counts`: whether sizes depend on data there."""
    actions = {e.action for e in recorded_events}
    recorded, dry = client_events(recorded_events, actions), client_events(dry_events, actions | {"oom"})
    equal = common_prefix(recorded, dry)
    recorded_segments, dry_segments = segment_log(recorded_events), segment_log(dry_events)
    segments_equal = recorded_segments == dry_segments
    allocations = [[e for e in side if e[0] == "alloc"] for side in (recorded, dry)]
    marks = [
        (a.label, b.allocated_peak - a.allocated_peak, b.reserved_peak - a.reserved_peak, b.reserved - a.reserved)
        for a, b in zip(recorded_marks, dry_marks)
    ]
    marks_missing = abs(len(recorded_marks) - len(dry_marks)) if recorded_marks else 0
    marks_equal = marks_missing == 0 and all(mark[1:] == (0, 0, 0) for mark in marks)
    blocks_equal = block_places(recorded_events) == block_places(dry_events)

    if recorded == dry and segments_equal and marks_equal:
        cause = EXACT
    elif recorded == dry:
        cause = ADDRESS_ORDER
    elif only_frees_moved(recorded, dry):
        cause = FREE_ORDER
    elif other_steps:
        cause = OTHER_STEPS
    elif questions and counts:
        cause = f"{CONVOLUTION}; {COUNTS}"
    elif questions:
        cause = CONVOLUTION
    elif counts:
        cause = COUNTS
    else:
        cause = UNEXPLAINED
    return Comparison(
        cause=cause,
        marks=marks,
        marks_missing=marks_missing,
        events_equal=equal,
        events=len(recorded),
        dry_events=len(dry),
        first_difference=describe_difference(recorded, dry, equal),
        allocations_equal=allocations[0] == allocations[1],
        segments_equal=segments_equal,
        reserved_peak=reserved_peak(dry_segments) - reserved_peak(recorded_segments),
        address_agreement=address_agreement(recorded_events, dry_events),
        blocks_equal=blocks_equal,
    )


def unlike_allocations(recorded_events, dry_events, most: int = 6) -> list:
    """Sizes that one side asked for more often than the other: (size, times recorded less times dry), the largest first."""
    count = collections.Counter(e.size for e in dry_events if e.action == "alloc")
    count.subtract(collections.Counter(e.size for e in recorded_events if e.action == "alloc"))
    return sorted(((size, times) for size, times in count.items() if times), reverse=True)[:most]
