"""Fabrics as files: railweave's own format, GraphML and InfraGraph, read and written."""

from railweave.framework.fabric_files.default_rates import NO_RATES, DefaultRates
from railweave.framework.fabric_files.loading import FabricFile, load
from railweave.framework.fabric_files.writing import FORMATS, text_of

__all__ = ["FORMATS", "NO_RATES", "DefaultRates", "FabricFile", "load", "text_of"]
