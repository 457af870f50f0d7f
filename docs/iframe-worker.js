// Browsers refuse workers of pages that are opened as files: an iframe does the same work there.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      this.queue = [];
      const inner = this.frame.contentWindow;
      inner.postToPage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        if (this.onmessage) this.onmessage(event);
      };
      inner.onready = () => {
        this.ready = true;
        this.queue.forEach((data) => inner.postMessage(data, "*"));
      };
      inner.document.open();
      inner.document.write(`<script>
        self.postMessageToSelf = self.postMessage.bind(self);
        const send = self.postMessage.bind(self);
        self.postMessage = (data, target) => target === "*" ? send(data, "*") : postToPage(data);
        self.importScripts = (...urls) => urls.reduce((done, url) => done.then(() => new Promise((next) => {
          const script = document.createElement("script");
          script.src = url; script.onload = next; document.body.append(script);
        })), Promise.resolve());
      <\/script><body><script src="${new URL(url, location)}" onload="onready()"><\/script></body>`);
      inner.document.close();
    }
    postMessage(data) {
      if (this.ready) this.frame.contentWindow.postMessage(data, "*");
      else this.queue.push(data);
    }
    terminate() { this.frame.remove(); }
  };
}
