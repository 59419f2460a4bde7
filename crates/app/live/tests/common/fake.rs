//! A daemon for tests: a control socket with prepared answers.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

#[derive(Default)]
struct State {
    volumes: Vec<String>,
    asks: Mutex<Vec<Value>>,
    streams: Mutex<Vec<UnixStream>>,
    readings: AtomicU64,
    is_mute: AtomicBool,
    has_ended: AtomicBool,
}

/// A daemon with a control socket, until it is dropped.
pub(crate) struct Fake {
    #[allow(dead_code, reason = "not every test needs it")]
    pub(crate) socket: PathBuf,
    state: Arc<State>,
    listening: Option<JoinHandle<()>>,
}

impl Fake {
    /// Starts a daemon in `daemons` of a runtime directory. It has the number of this process.
    pub(crate) fn start(runtime: &Path, volumes: &[&str]) -> Fake {
        let directory = runtime.join("daemons");
        std::fs::create_dir_all(&directory).expect("room");
        let socket = directory.join(format!("{}.sock", std::process::id()));
        let listener = UnixListener::bind(&socket).expect("room");
        let volumes = volumes.iter().map(|name| (*name).to_owned()).collect();
        let state = Arc::new(State { volumes, ..State::default() });
        let shared = state.clone();
        let listening = std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if shared.has_ended.load(Ordering::SeqCst) {
                    return;
                }
                let kept = stream.try_clone().expect("a descriptor");
                shared.streams.lock().expect("whole").push(kept);
                let shared = shared.clone();
                std::thread::spawn(move || shared.answer_all(&stream));
            }
        });
        Fake { socket, state, listening: Some(listening) }
    }

    /// Stops answering; connections stay open.
    #[allow(dead_code, reason = "not every test needs it")]
    pub(crate) fn mute(&self) {
        self.state.is_mute.store(true, Ordering::SeqCst);
    }

    /// Returns the requests that are no readings.
    #[allow(dead_code, reason = "not every test needs it")]
    pub(crate) fn asks(&self) -> Vec<Value> {
        self.state.asks.lock().expect("whole").clone()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.state.has_ended.store(true, Ordering::SeqCst);
        let _ = UnixStream::connect(&self.socket);
        let _ = self.listening.take().map(JoinHandle::join);
        let _ = std::fs::remove_file(&self.socket);
        for stream in self.state.streams.lock().expect("whole").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl State {
    fn answer_all(&self, stream: &UnixStream) {
        let mut writer = stream.try_clone().expect("a descriptor");
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if self.is_mute.load(Ordering::SeqCst) {
                continue;
            }
            let ask: Value = serde_json::from_str(&line).expect("JSON");
            let answer = json!({ "answer": "done", "value": self.value(&ask) });
            if writeln!(writer, "{answer}").is_err() {
                return;
            }
        }
    }

    fn value(&self, ask: &Value) -> Value {
        let cache = json!({
            "write": "back", "durability": "flush", "dirty_age_ms": 5000, "memory": 32 << 20,
        });
        match ask["ask"].as_str().unwrap_or_default() {
            "list" => self.volumes.iter().map(|name| row(name)).collect(),
            "stats" => self.statistics(ask["volume"].as_str().unwrap_or_default()),
            "show" => json!({ "stack": { "type": "cache", "cache": cache } }),
            _ => {
                self.asks.lock().expect("whole").push(ask.clone());
                Value::Null
            }
        }
    }

    /// Each reading is a second later: 300 more hits, 100 more misses.
    fn statistics(&self, volume: &str) -> Value {
        let reading = self.readings.fetch_add(1, Ordering::SeqCst) + 1;
        let point = |memory_bytes: u64, miss_ratio: f64| json!({ "memory_bytes": memory_bytes, "miss_ratio": miss_ratio, "saves_ns_per_s": 1e6 });
        json!({
            "volume": volume, "now_ns": reading * 1_000_000_000, "memory_bytes": 32 << 20,
            "state": "serving", "write": "back",
            "counters": {
                "read_hits": reading * 300, "read_misses": reading * 100, "changes": reading,
                "blocks_dirty": 3, "dirty_blocks_max": 100, "allowance_blocks": 100,
                "time_saved_ns": reading * 1_000_000, "blocks_saved": reading,
            },
            "guard": { "on": true, "reads_aside": "the backing is fast <b>", "times": 1 },
            "curve": {
                "window_ns": 60_000_000_000_u64, "accesses": 1000,
                "points": [point(16 << 20, 0.5), point(32 << 20, 0.25), point(64 << 20, 0.125)],
            },
            "files": {
                "followed": true,
                "classes": [{ "class": "databases", "hits": 9, "misses": 1 }],
            },
        })
    }
}

fn row(name: &str) -> Value {
    json!({
        "name": name, "backing": "/srv/a & b.img", "state": "serving", "size_bytes": 1 << 30,
        "memory_bytes": 32 << 20, "write": "back", "dirty_bytes": 12288, "clients": 1, "uri": "",
        "pid": std::process::id(),
    })
}
