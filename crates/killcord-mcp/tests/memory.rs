//! Hostile output costs time and memory within bounds: 33 kB of escape sequences under 1 s and 20 MB, and 200 MB of
//! a string without an end no more memory than that. The only test in its file: what it measures is its process.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use std::time::{Duration, Instant};

use killcord_mcp::terminal::plain::Plain;
use killcord_mcp::terminal::ring::Ring;
use killcord_mcp::terminal::screen::Screen;

const LIMIT_KB: u64 = 20_000;

/// A line of `/proc/self/status`, in kB.
fn memory(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').trim().trim_end_matches("kB").trim().parse().unwrap()
}

#[test]
fn heavy_hostile_output_in_bounded_memory() {
    let before = memory("VmRSS");
    let mut everything = String::new();
    let sequences = [
        "\x1b[2J",
        "x\x1b[99999b",
        "\x1b[9999@",
        "\x1b[9999S",
        "\x1b[9999L",
        "\x1b[?1049h\x1b[?1049l",
        "\x1bc",
    ];
    for sequence in sequences {
        everything.push_str(&sequence.repeat(33_000 / sequence.len() / sequences.len()));
    }
    let mut plain = Plain::new();
    // The largest screen that there is has the largest share of it.
    let mut screen = Screen::new(80, 24);
    for (columns, rows) in [(80, 24), (500, 500)] {
        screen = Screen::new(columns, rows);
        let began = Instant::now();
        let _ = screen.feed(everything.as_bytes());
        let _ = plain.feed(everything.as_bytes());
        let took = began.elapsed();
        let more = memory("VmHWM") - before;
        println!("33 kB of hostile sequences on {columns}x{rows}: {took:?}, {more} kB");
        assert!(took < Duration::from_secs(if cfg!(debug_assertions) { 4 } else { 1 }), "{took:?}");
        assert!(more < LIMIT_KB, "{more} kB");
    }

    let mut ring = Ring::new(1 << 20);
    let _ = screen.feed(b"\x1b]0;");
    let _ = plain.feed(b"\x1b]0;");
    let chunk = vec![b'x'; 65_536];
    let began = Instant::now();
    for _ in 0..3200 {
        let _ = screen.feed(&chunk);
        let _ = plain.feed(&chunk);
        ring.push(&chunk);
    }
    println!("200 MB of an endless command: {:?}, {} kB", began.elapsed(), memory("VmHWM") - before);
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    assert!(memory("VmHWM") - before < LIMIT_KB, "{} kB", memory("VmHWM") - before);
}
