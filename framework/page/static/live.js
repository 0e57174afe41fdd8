// Follows a run while it goes on: the server's messages, and again after the connection was cut.
const AGAIN_MS = 1000;

/** Applies the messages of the run to the store until it has ended, and then puts its report there. `say`
 *  shows the state of the connection in words. */
export function follow(store, say) {
  let last = store.run.events;

  const open = () => {
    const source = new EventSource(`events?after=${last}`);
    source.onopen = () => say("Live: this page follows the run.");
    source.onmessage = async ({ data, lastEventId }) => {
      const number = Number(lastEventId);
      const event = JSON.parse(data);
      if (event.kind === "reset") {
        source.close();
        reload();
      } else if (number > last) {
        last = number;
        if (event.kind !== "end") return store.apply(event);
        source.close();
        say("The run has ended, and so has its server. This page stays as it is.");
        await store.replace(event.data);
      }
    };
    source.onerror = () => {
      say("The connection to the run is lost. Trying again ...");
      if (source.readyState === EventSource.CLOSED) setTimeout(open, AGAIN_MS);
    };
  };

  const reload = async () => {
    try {
      await store.replace(await (await fetch("data.json")).json());
      last = store.run.events;
      open();
    } catch {
      say("The connection to the run is lost. Trying again ...");
      setTimeout(reload, AGAIN_MS);
    }
  };

  open();
}
