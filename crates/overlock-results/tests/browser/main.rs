//! Can people read and use a page, in a real browser: wide and narrow, light, dark and on paper,
//! by eye, by keyboard and by screen reader? `look.js` has what they would complain about.
//!
//! Chromium is driven over a pipe by its DevTools protocol.

#[path = "../support/records.rs"]
mod records;

use overlock_results::page::Results;
use records::{experiment, point};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const LOOK: &str = include_str!("look.js");

/// Width of the window, colour scheme, medium; paper is A4 without its margins.
const VIEWS: [(u32, &str, &str); 5] = [
    (1280, "light", "screen"),
    (1280, "dark", "screen"),
    (400, "light", "screen"),
    (400, "dark", "screen"),
    (718, "dark", "print"),
];

struct Browser {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    session: Value,
    calls: u64,
    page: PathBuf,
}

impl Browser {
    /// Starts a browser for the test of this name, or reports that there is none that starts.
    fn start(test: &str) -> Option<Self> {
        let names = ["chromium", "chromium-browser", "google-chrome", "chrome"];
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut all = std::env::split_paths(&path).flat_map(|of| names.map(|name| of.join(name)));
        let skip = |why| {
            let told = format!("skipped: no chromium here to look at pages{why}\n");
            std::io::stderr().write_all(told.as_bytes()).ok().and(None)
        };
        let Some(program) = all.find(|program| program.is_file()) else { return skip("") };
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        std::fs::create_dir_all(&folder).unwrap();
        // The protocol is spoken on descriptors 3 and 4. The sandbox needs rights that a test may
        // not have, and the pages are ours.
        let script = r#"exec timeout -k 5 600 "$0" --headless --no-sandbox --disable-gpu \
            --disable-dev-shm-usage --remote-debugging-pipe --user-data-dir="$1" \
            3<&0 4>&1 0</dev/null 1>/dev/null 2>&1"#;
        let mut child = Command::new("sh")
            .args(["-c", script])
            .args([&program, &folder.join("profile")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (mut from, page) = (BufReader::new(from), folder.join("page.html"));
        let asks = b"{\"id\": 0, \"method\": \"Browser.getVersion\"}\0";
        if to.write_all(asks).is_err() || from.fill_buf().unwrap().is_empty() {
            child.wait().unwrap();
            return skip(": it does not start");
        }
        let mut browser = Browser { child, to, from, session: Value::Null, calls: 0, page };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let how = json!({"targetId": target["targetId"], "flatten": true});
        browser.session = browser.call("Target.attachToTarget", how)["sessionId"].clone();
        browser.call("Page.enable", json!({}));
        Some(browser)
    }

    fn read(&mut self) -> Value {
        let mut message = Vec::new();
        self.from.read_until(0, &mut message).unwrap();
        assert_eq!(message.pop(), Some(0), "the browser has ended");
        serde_json::from_slice(&message).unwrap()
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        self.calls += 1;
        let mut message = json!({"id": self.calls, "method": method, "params": params});
        if !self.session.is_null() {
            message["sessionId"] = self.session.clone();
        }
        write!(self.to, "{message}\0").unwrap();
        let answer = loop {
            let message = self.read();
            if message["id"] == self.calls {
                break message;
            }
        };
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].clone()
    }

    fn open(&mut self, page: &str) {
        std::fs::write(&self.page, page).unwrap();
        let url = format!("file://{}", self.page.display());
        self.call("Page.navigate", json!({"url": url}));
        while self.ask("document.readyState") != "complete" {}
        self.ask("for (const of of document.querySelectorAll('details')) of.open = true");
    }

    fn view(&mut self, (width, scheme, medium): (u32, &str, &str)) {
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size);
        let scheme = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", json!({"media": medium, "features": scheme}));
    }

    fn ask(&mut self, script: &str) -> Value {
        let answer =
            self.call("Runtime.evaluate", json!({"expression": script, "returnByValue": true}));
        assert!(answer["exceptionDetails"].is_null(), "{answer:#}");
        answer["result"]["value"].clone()
    }

    fn look(&mut self) -> Vec<String> {
        serde_json::from_value(self.ask(LOOK)).unwrap()
    }

    fn press(&mut self, key: &str, code: u32) {
        for kind in ["keyDown", "keyUp"] {
            let key = json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code});
            self.call("Input.dispatchKeyEvent", key);
        }
    }

    /// Walks through the page by the tabulator key; returns what it does not reach, and where the
    /// focus is not seen.
    fn walk(&mut self) -> Vec<String> {
        let all = "[...document.querySelectorAll('a[href], button, input, summary, [tabindex]')]\
                   .filter((of) => of.checkVisibility())";
        self.ask(&format!("window.left = new Set({all}); document.activeElement.blur()"));
        let count = self.ask("left.size").as_u64().unwrap();
        let seen = "(() => {
            const of = document.activeElement, style = getComputedStyle(of);
            left.delete(of);
            const isSeen = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1;
            return isSeen ? '' : `no focus is seen: ${of.outerHTML.slice(0, 80)}`;
        })()";
        let mut faults = Vec::new();
        for _ in 0..count {
            self.press("Tab", 9);
            faults.push(self.ask(seen).as_str().unwrap().to_owned());
        }
        let left = "[...left].map((of) => `no key reaches ${of.outerHTML.slice(0, 80)}`)";
        faults.extend(serde_json::from_value::<Vec<String>>(self.ask(left)).unwrap());
        faults.retain(|fault| !fault.is_empty());
        faults
    }

    /// Returns what a screen reader is not told.
    fn untold(&mut self) -> Vec<String> {
        let tree = self.call("Accessibility.getFullAXTree", json!({}));
        let nodes = tree["nodes"].as_array().unwrap();
        let of = |role: &str| -> Vec<&Value> {
            let is_it = |of: &&Value| of["role"]["value"] == role && of["ignored"] == false;
            nodes.iter().filter(is_it).collect()
        };
        let is_unnamed = |of: &&Value| of["name"]["value"].as_str().is_none_or(str::is_empty);
        let unnamed = |role: &str| of(role).into_iter().filter(is_unnamed).count();
        let mut faults = Vec::new();
        if unnamed("image") + unnamed("table") > 0 {
            faults.push("an image or a table has no name".to_owned());
        }
        if of("columnheader").len() < of("table").len() {
            faults.push("a table is none for screen readers".to_owned());
        }
        faults
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.session = Value::Null;
        self.call("Browser.close", json!({}));
        self.child.wait().unwrap();
    }
}

fn page(rows: &str) -> String {
    let mut results = Results::default();
    results.read("rows.jsonl", rows.as_bytes());
    assert_eq!(results.complaints, [""; 0]);
    overlock_results::page::page(&results, None)
}

/// Rows that verbs have written, and others that are hard to draw; each with its name.
fn all_rows() -> Vec<(String, String)> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let files = std::fs::read_dir(data).unwrap().map(|file| file.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|of| of == "jsonl"));
    let read = |path: PathBuf| (path.display().to_string(), std::fs::read_to_string(path).unwrap());
    files.map(read).chain([("crowd".into(), crowd())]).collect()
}

/// Twelve locks with three overcommits, some with long names, and all as fast as each other.
fn crowd() -> String {
    let mut rows = Vec::new();
    for lock in 0..12 {
        let name = format!("sequential-test-and-set-that-nobody-calls-by-this-name-{lock}");
        let name = if lock < 2 { name } else { format!("lock-{lock}") };
        rows.extend([2, 3, 100].map(|cpus| format!("{}\n", point(&name, cpus, 1e6))));
    }
    rows.concat()
}

/// Returns the faults of a page in a view; of its keys too, where it is on a screen.
fn faults(browser: &mut Browser, page: &str, view: (u32, &str, &str), spoil: &str) -> Vec<String> {
    browser.view(view);
    browser.open(page);
    browser.ask(spoil);
    let mut faults = browser.look();
    // Keys and names do not depend on colours.
    if view.1 == "light" {
        faults.extend(browser.untold());
        faults.extend(browser.walk());
    }
    faults
}

#[test]
fn pages_can_be_read_and_used() {
    let Some(mut browser) = Browser::start("pages") else { return };
    let mut found = Vec::new();
    for (name, rows) in all_rows() {
        let page = page(&rows);
        for view in VIEWS {
            let faults = faults(&mut browser, &page, view, "0");
            found.extend(faults.iter().map(|fault| format!("{name} {view:?}: {fault}")));
        }
    }
    assert!(found.is_empty(), "{} faults:\n{}", found.len(), found.join("\n"));
}

/// How pages can go wrong, and what is then said.
const BROKEN: [(&str, &str); 15] = [
    ("document.documentElement.style.setProperty('--soft', '#999')", "text has a contrast of 2.8"),
    ("document.documentElement.style.setProperty('--c0', '#bcd')", "a line has a contrast of 1."),
    ("document.querySelector('h1').style.width = '2000px'", "pixels wide, and the window 1265"),
    ("document.querySelector('g.axis-y').lastChild.setAttribute('y', 108)", "text overlaps: "),
    ("document.querySelector('g.axis-x text').setAttribute('x', -200)", "outside of its chart"),
    ("document.querySelector('h1').style = 'width: 2em; overflow: hidden'", "it is cut off: h1"),
    ("document.querySelector('svg.chart .unit').remove()", "an axis has no title"),
    ("document.querySelector('g > .mark').style.translate = '0 12px'", "is drawn at"),
    ("document.querySelector('svg.chart > desc').remove()", "it is not described"),
    ("document.querySelector('svg.chart > title').remove()", "an image or a table has no name"),
    ("for (const of of document.querySelectorAll('table')) of.remove()", "no table has its fig"),
    (
        "const of = document.querySelector('h2'); of.outerHTML = '<h4>one</h4>'",
        "of level 4 follows",
    ),
    ("document.querySelector('th').removeAttribute('scope')", "a header cell has no scope"),
    (
        "document.querySelector('.scroll').style.outline = 'none'",
        "no focus is seen: <div class=\"s",
    ),
    ("document.querySelector('.scroll').tabIndex = -1", "no key reaches <div class=\"scroll\""),
];

#[test]
fn a_page_that_is_broken_is_noticed() {
    let Some(mut browser) = Browser::start("broken") else { return };
    let rows: String = experiment("abc", 1.0).iter().map(|row| format!("{row}\n")).collect();
    let page = page(&rows);
    assert_eq!(faults(&mut browser, &page, VIEWS[0], "0"), [""; 0]);
    let mut missed = Vec::new();
    for (spoil, said) in BROKEN {
        let faults = faults(&mut browser, &page, VIEWS[0], spoil);
        if !faults.iter().any(|fault| fault.contains(said)) {
            missed.push(format!("{spoil}: {faults:#?}"));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn rows_are_found_by_their_words() {
    let Some(mut browser) = Browser::start("search") else { return };
    let row = |n| json!({"kind": "check", "bound": format!("bound {n}"), "place": "here"});
    let rows: String = (0..12).map(|n| format!("{}\n", row(n))).collect();
    browser.view(VIEWS[0]);
    browser.open(&page(&rows));
    let left = "[...document.querySelectorAll('tbody tr')].filter((of) => of.checkVisibility()).length\
                + document.querySelector('output').textContent";
    assert_eq!(browser.ask(left), "12");
    browser.press("Tab", 9);
    browser.call("Input.insertText", json!({"text": "HERE bound 1"}));
    assert_eq!(browser.ask(left), "33 of 12 rows", "bounds 1, 10 and 11");
}
