//! A headless browser, controlled over the pipes of the DevTools protocol.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Debian's name, and others'.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// A name that leads to this machine.
pub(crate) const REBOUND: &str = "rebound.example";

/// A browser with one page.
pub(crate) struct Browser {
    child: Child,
    commands: ChildStdin,
    replies: BufReader<ChildStdout>,
    session: String,
    count: u64,
    /// Events of the page since they were last read, with their methods.
    pub(crate) events: Vec<Value>,
}

impl Browser {
    /// Starts a browser. None: there is none on this machine.
    pub(crate) fn start(home: &Path) -> Option<Browser> {
        let is_there = |name: &&&str| {
            let found = Command::new(name).arg("--version").stdout(Stdio::null()).status();
            found.is_ok_and(|status| status.success())
        };
        let name = NAMES.iter().find(is_there)?;
        // The protocol's pipes are descriptors 3 and 4. The time limit ends it in any case.
        let script = "exec timeout 900 \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";
        let mut child = Command::new("sh")
            .args(["-c", script, "sh", name, "--headless", "--no-sandbox", "--disable-gpu"])
            .args(["--remote-debugging-pipe", "--disable-dev-shm-usage", "about:blank"])
            .arg(format!("--user-data-dir={}", home.display()))
            // A name of another site that leads to this machine, for tests of DNS rebinding.
            .arg(format!("--host-resolver-rules=MAP {REBOUND} 127.0.0.1"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh runs");
        let commands = child.stdin.take().expect("a pipe");
        let replies = BufReader::new(child.stdout.take().expect("a pipe"));
        let (session, events) = (String::new(), Vec::new());
        let mut browser = Browser { child, commands, replies, session, count: 0, events };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let target = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", target);
        browser.session = attached["sessionId"].as_str().expect("a session").to_owned();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    /// Calls a method, and waits for its result.
    pub(crate) fn call(&mut self, method: &str, parameters: Value) -> Value {
        let message = self.try_call(method, parameters);
        assert!(message["error"].is_null(), "{method}: {}", message["error"]);
        message["result"].clone()
    }

    /// Calls a method, and waits for its result or its error.
    fn try_call(&mut self, method: &str, parameters: Value) -> Value {
        self.count += 1;
        let mut command = json!({ "id": self.count, "method": method, "params": parameters });
        if !self.session.is_empty() {
            command["sessionId"] = self.session.as_str().into();
        }
        let text = format!("{command}\0");
        self.commands.write_all(text.as_bytes()).expect("the browser listens");
        loop {
            let message = self.message();
            if message["id"] == self.count {
                return message;
            }
            self.events.push(message);
        }
    }

    fn message(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.replies.read_until(0, &mut bytes).expect("the browser answers");
        assert_eq!(bytes.pop(), Some(0), "the browser has ended");
        serde_json::from_slice(&bytes).expect("JSON")
    }

    /// Opens a page and waits until it is loaded. `scheme` is `light` or `dark`.
    pub(crate) fn open(&mut self, page: &Path, size: (u32, u32), scheme: &str) {
        self.show_as(size, scheme);
        self.events.clear();
        self.go(&format!("file://{}", page.display()));
    }

    /// Sets the size of the screen and the colours.
    pub(crate) fn show_as(&mut self, (width, height): (u32, u32), scheme: &str) {
        let phone = width < 600;
        let metrics = json!({
            "width": width, "height": height, "deviceScaleFactor": if phone { 3 } else { 1 }, "mobile": phone,
        });
        self.call("Emulation.setDeviceMetricsOverride", metrics);
        self.media("screen", scheme);
    }

    /// Opens an address and waits until its page is loaded.
    pub(crate) fn go(&mut self, url: &str) {
        let before = self.loads();
        self.call("Page.navigate", json!({ "url": url }));
        self.wait_for_load(before);
    }

    /// Clicks on an element that leads to another page, and waits until that is loaded.
    pub(crate) fn follow(&mut self, element: &str) {
        let before = self.loads();
        self.click(element);
        self.wait_for_load(before);
    }

    /// Activates an element that leads to another page without a pointer, and waits until that is
    /// loaded.
    pub(crate) fn activate(&mut self, element: &str) {
        let before = self.loads();
        self.value(&format!("{element}.click()"));
        self.wait_for_load(before);
    }

    /// Clicks on the middle of an element, as a pointer does. A browser drops clicks until it has
    /// painted a new page, and an element may move, so the click is repeated until the element has
    /// received it.
    pub(crate) fn click(&mut self, element: &str) {
        let script = format!(
            "(() => {{ const element = {element}; element.scrollIntoView({{ block: 'center' }}); \
             window.hasClick = false; \
             element.addEventListener('click', () => window.hasClick = true, {{ once: true }}); \
             const box = element.getBoundingClientRect(); \
             return [box.left + box.width / 2, box.top + box.height / 2]; }})()"
        );
        let asked = json!({ "expression": "window.hasClick === false", "returnByValue": true });
        loop {
            let place = self.value(&script);
            for kind in ["mousePressed", "mouseReleased"] {
                let event = json!({
                    "type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1,
                });
                self.call("Input.dispatchMouseEvent", event);
            }
            // Another page does not have the variable.
            let found = self.try_call("Runtime.evaluate", asked.clone());
            if found["result"]["result"]["value"] != true {
                return;
            }
        }
    }

    /// Presses a key.
    pub(crate) fn press(&mut self, key: &str, code: u32) {
        for kind in ["rawKeyDown", "char", "keyUp"] {
            let mut event = json!({
                "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code,
            });
            if key == "Enter" {
                event["text"] = "\r".into();
            } else if kind == "char" {
                continue;
            }
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    fn loads(&self) -> usize {
        let is_load = |event: &&Value| event["method"] == "Page.loadEventFired";
        self.events.iter().filter(is_load).count()
    }

    fn wait_for_load(&mut self, before: usize) {
        while self.loads() == before {
            let message = self.message();
            self.events.push(message);
        }
    }

    /// Presses a key that leads to another page, and waits until that is loaded.
    pub(crate) fn press_to_follow(&mut self, key: &str, code: u32) {
        let before = self.loads();
        self.press(key, code);
        self.wait_for_load(before);
    }

    /// Waits until an expression is true, also if the page is replaced meanwhile.
    pub(crate) fn wait(&mut self, expression: &str) {
        let script = format!("new Promise(done => setTimeout(() => done(!!({expression})), 50))");
        let asked = json!({ "expression": script, "returnByValue": true, "awaitPromise": true });
        loop {
            let found = self.try_call("Runtime.evaluate", asked.clone());
            if found["result"]["result"]["value"] == true {
                return;
            }
        }
    }

    /// Sets the medium of the page: `screen` or `print`.
    pub(crate) fn media(&mut self, media: &str, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "media": media, "features": features }));
    }

    /// Returns the value of an expression; for a promise, the value that it gives.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let asked =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let found = self.call("Runtime.evaluate", asked);
        assert!(found["exceptionDetails"].is_null(), "{expression}: {found}");
        found["result"]["value"].clone()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Its own end ends its processes too; after a failure it may not read any more.
        let _ = self.commands.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        let _ = self.child.wait();
    }
}
