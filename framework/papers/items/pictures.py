"""Pictures of items: fabrics with cables marked, pictures in a row, lightpaths by stage, pipelines."""

from collections.abc import Iterable, Sequence
from xml.etree import ElementTree

from railweave.framework.drawing import svg
from railweave.framework.drawing.canvas import INK, PALE, Canvas, colour
from railweave.framework.model import Fabric
from railweave.framework.papers.optical.lightpath_plan import LightpathPlan
from railweave.framework.papers.training.pipeline import TimedPass

MARK = "#111111"
_SVG = "http://www.w3.org/2000/svg"
GAP = 24
PASS = 26.0
"""Of a picture of a pipeline: height of a stage, and width of its shortest pass."""
PITCH, ROW = 30.0, 90.0
"""Between nodes, and between stages, of a picture of lightpaths."""

ElementTree.register_namespace("", _SVG)


def marked(fabric: Fabric, links: Iterable[int], words: str, *, dash: str = "") -> str:
    """The fabric's picture with the cables of `links` drawn thick, and `words` as its label."""
    root = ElementTree.fromstring(svg(fabric, whole=True))
    wanted = {f"link{link & ~1}" for link in links}
    for element in root.iter():
        if element.get("id") in wanted:
            element.set("stroke", MARK)
            element.set("stroke-width", "5")
            element.set("class", f"{element.get('class', '')} marked".strip())
            if dash:
                element.set("stroke-dasharray", dash)
    root.set("aria-label", words)
    return _text(root)


def in_a_row(pictures: Sequence[str], words: str) -> str:
    """Several SVG documents from left to right in one."""
    roots = [ElementTree.fromstring(picture) for picture in pictures]
    outer = ElementTree.Element(f"{{{_SVG}}}svg", {"role": "img", "aria-label": words})
    left, high = 0.0, 0.0
    for number, root in enumerate(roots):
        for element in root.iter():  # ids are of the whole document
            if "id" in element.attrib:
                element.set("id", f"p{number}-{element.get('id')}")
        root.set("x", f"{left:.0f}")
        outer.append(root)
        left += float(root.get("width", 0)) + GAP
        high = max(high, float(root.get("height", 0)))
    wide = max(left - GAP, 1.0)
    outer.attrib |= {"width": f"{wide:.0f}", "height": f"{high:.0f}", "viewBox": f"0 0 {wide:.0f} {high:.0f}"}
    return _text(outer)


def lightpaths(plan: LightpathPlan, node: int, title: str) -> str:
    """A row for each stage of the plan: its nodes, and an arc to each node that `node` sends to."""
    canvas = Canvas()
    canvas.text((0.0, -70.0), title, 12.0, anchor="start", bold=True)
    for row, name in enumerate(plan.stage_names):
        y = row * ROW
        canvas.text((-16.0, y), name, 10.0, anchor="end")
        mine = (plan.stage == row) & (plan.src == node)
        reached = {int(dst): bool(up) for dst, up in zip(plan.dst[mine], plan.up[mine], strict=True)}
        for dst, up in sorted(reached.items()):
            ends = (node * PITCH, y), (dst * PITCH, y)
            rise = min(0.35 * abs(dst - node) * PITCH, 0.55 * ROW)
            middle = ((ends[0][0] + ends[1][0]) / 2, y - rise)
            path = f"M{ends[0][0]:.1f},{y:.1f} Q{middle[0]:.1f},{middle[1]:.1f} {ends[1][0]:.1f},{y:.1f}"
            way = "up" if up else "down"
            canvas.path(path, [*ends, middle], colour(row), 1.6, title=f"{node} to {dst}, {way} the ring")
        for place in range(plan.nodes):
            busy = place == node or place in reached
            canvas.dot((place * PITCH, y), 4.0, INK if busy else "#ffffff", INK if busy else PALE)
            canvas.text((place * PITCH, y + 14), str(place), 9.0)
    return canvas.document(title)


def pipeline(passes: Sequence[TimedPass], critical: Sequence[TimedPass], title: str) -> str:
    """A row for each stage, a box for each pass, those on the critical path with a thick frame."""
    canvas = Canvas()
    canvas.text((0.0, -24.0), title, 12.0, anchor="start", bold=True)
    on_path = set(critical)
    scale = PASS / min(timed.end_s - timed.start_s for timed in passes)
    for timed in passes:
        wide, y = (timed.end_s - timed.start_s) * scale, timed.stage * PASS
        centre = (timed.start_s * scale + wide / 2, y)
        words = f"{'backward' if timed.backward else 'forward'} {timed.microbatch}, stage {timed.stage}"
        fill, thick = ("#cfe3d6", "#d5e3f5")[not timed.backward], 2.4 if timed in on_path else 0.6
        size = (wide - 2, PASS - 6)
        canvas.box(
            centre, size, fill, radius=2.0, width=thick, title=words, words=str(timed.microbatch), font=9.0
        )
    for stage in sorted({timed.stage for timed in passes}):
        canvas.text((-8.0, stage * PASS), f"stage {stage}", 10.0, anchor="end")
    return canvas.document(title)


def _text(root: ElementTree.Element) -> str:
    return ElementTree.tostring(root, encoding="unicode") + "\n"
