"""Rates of links without a bandwidth: one for all, or one for each kind: `nvlink=450GB/s,pcie=64GB/s`."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from railweave.framework.errors import ExperimentError, did_you_mean
from railweave.framework.parameters.units import parse_rate, rate

EXPECTS = "a rate such as 400Gb/s, or one for each kind of link: nvlink=450GB/s,pcie=64GB/s"


@dataclass(frozen=True)
class DefaultRates:
    """`by_word`: rates by words of a link's name or description, `others`: that of all others, 0 for none."""

    by_word: Mapping[str, float] = field(default_factory=dict)
    others: float = 0.0

    @classmethod
    def read(cls, text: str) -> "DefaultRates":
        """Raises ExperimentError for what is none."""
        by_word: dict[str, float] = {}
        for part in text.split(","):
            word, _, value = part.rpartition("=")
            word = word.strip().lower()
            try:
                bps = parse_rate(value.strip())
            except ValueError:
                raise ExperimentError(f"default_rate: {part.strip()!r} is not {EXPECTS}.") from None
            if bps < 1:
                raise ExperimentError(f"default_rate: {part.strip()!r} is too small; it takes {EXPECTS}.")
            if word in by_word or (not word and "" in by_word):
                raise ExperimentError(f"default_rate: {text!r} has two rates for {word or 'all'}. Keep one.")
            by_word[word] = bps
        others = by_word.pop("", 0.0)
        return cls(by_word, others)

    def of(self, name: str, description: str = "") -> float:
        """That of a link: of the word that is its name, else of the longest in its name or description."""
        name, text = name.lower(), f"{name}\n{description}".lower()
        words = [word for word in self.by_word if word == name] or [w for w in self.by_word if w in text]
        return self.by_word[max(words, key=len)] if words else self.others

    def check_known(self, links: Mapping[str, str]) -> None:
        """Raises ExperimentError for a word that is in none of the links without a bandwidth: `links`, their
        descriptions by name."""
        for word, bps in self.by_word.items():
            if not any(word in f"{name}\n{text}".lower() for name, text in links.items()):
                listed = ", ".join(f"{name} ({text})" if text else name for name, text in links.items())
                raise ExperimentError(
                    f"default_rate: {word}={rate(bps)} is for no link: those without a bandwidth are "
                    f"{listed or 'none'}.{did_you_mean(word, links)}"
                )


NO_RATES = DefaultRates()
