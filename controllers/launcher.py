"""The controller process: `python -m railweave.controllers.launcher CHANNEL LIBRARY [LISTENER ...]`.

Its channel and its listening sockets are inherited descriptors; it opens nothing itself. It ends with the
process that started it (`ControllerProcess`): by a signal when that process dies, otherwise when the channel
closes.
"""

import argparse
import gc
import logging
import os
import signal

from railweave.controllers.packages import PACKAGES
from railweave.framework.processes.namespaces import die_with_parent


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve switches on inherited sockets.")
    parser.add_argument("channel", type=int, help="descriptor of this process's end of the channel")
    parser.add_argument("library", choices=PACKAGES)
    parser.add_argument("listeners", type=int, nargs="*", help="listening descriptors")
    options = parser.parse_args()
    die_with_parent(signal.SIGKILL)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    os.environ["RAILWEAVE_OPENFLOW_LIBRARY"] = options.library
    gc.disable()  # imports create objects that stay: collecting meanwhile takes a tenth of the start-up
    from railweave.controllers import app, library
    from railweave.controllers.listeners import InheritedListeners
    from railweave.framework.processes.channel import Channel

    gc.freeze()
    gc.enable()
    channel = Channel.from_fd(options.channel)
    library.run(app.__name__, InheritedListeners(options.listeners), channel=channel)


if __name__ == "__main__":
    main()
