// Search in pages that are opened from disk, where browsers start no worker: its script runs in a hidden frame.
// The name is what the theme's offline plugin looks for, which else fetches such a script from elsewhere.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      this.inside = frame.contentWindow
      this.inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", {data}))

      const script = this.inside.document.createElement("script")
      script.src = url
      this.ready = new Promise(resolve => { script.onload = resolve })
      this.inside.document.body.append(script)
    }

    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", {data})))
    }
  }
}
