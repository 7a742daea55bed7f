// A browser starts no worker for a page that was opened from disk. There, search runs in a hidden
// frame instead: it takes a little of the page's own time, and answers in the same way.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(url) {
      this.onmessage = this.onerror = null;
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => this.onmessage?.(new MessageEvent("message", { data }));
      const script = inside.document.createElement("script");
      this.loaded = new Promise((resolve) => { script.onload = resolve; });
      script.onerror = () => this.onerror?.(new Event("error", { cancelable: true }));
      script.src = new URL(url, location.href);
      inside.document.head.append(script);
    }
    postMessage(data) {
      this.loaded.then(() =>
        this.frame.contentWindow?.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
