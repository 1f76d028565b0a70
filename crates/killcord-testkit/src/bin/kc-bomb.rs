//! `kc-bomb wide|deep|exec|reparent|term [--cap N] [--seconds S]`: a fork bomb of at most N processes (400) that
//! go on forking while one of them lives, for at most S seconds (20).
//!
//! - `wide`: many children of one, refilled as they die;
//! - `deep`: a chain of children, each of which starts its child anew when that dies;
//! - `exec`: the same chain, each of which executes itself anew;
//! - `reparent`: processes without a parent that change their number every few milliseconds and multiply;
//! - `term`: a tree of processes that ignore TERM, INT and HUP, each in a session of its own.
//!
//! Prints `ready` when N/2 processes exist, or when a fork has failed. All of them hold stdout: its end proves
//! that they are gone.
//!
//! The bound: each process takes a seat, a locked byte of a file in memory, which the kernel gives back when it
//! dies, so that killed processes make room for new ones as in a real bomb. One that finds no seat exits at once.
//! It is safe when nobody stops it: no process forks after the deadline, and each has an alarm of its own just
//! after it. With a scene (`$D/ids`) it ends when that is gone.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use killcord_sys::fixture::{
    Forked, alarm, exit_now, fork, ignore_signal, leave_seats, seat_taken, take_seat,
};
use killcord_testkit::{Signal, life};
use rustix::process::{WaitOptions, setsid};

/// The most that is allowed, so that a slip of the pen does not stop the machine.
const MOST: u32 = 2000;
/// Hopping processes on the first seats hop this often; the others are slowed down to so many hops in a second
/// together, since each leaves a zombie to whoever reaps (often a process 1 that is no fast one), and a table that
/// is full of zombies stops the machine and not the bomb.
const FAST_HOPPERS: u32 = 4;
const FAST_HOP: Duration = Duration::from_millis(3);
const SLOW_HOPS_PER_SECOND: u32 = 1200;
/// How long a process that found no room waits before it looks again.
const NO_ROOM: Duration = Duration::from_millis(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Wide,
    Deep,
    Exec,
    Reparent,
    Term,
}

impl Kind {
    fn named(text: &str) -> Option<Self> {
        Some(match text {
            "wide" => Self::Wide,
            "deep" => Self::Deep,
            "exec" => Self::Exec,
            "reparent" => Self::Reparent,
            "term" => Self::Term,
            _ => return None,
        })
    }
}

/// What every process of the bomb knows.
struct Bomb {
    kind: Kind,
    cap: u32,
    /// On the monotonic clock.
    until_ms: u64,
    /// Seats are locked bytes of this file; a byte written to it says that a fork has failed.
    seats: File,
    /// The number under which an executed link finds it.
    number: i32,
    scene: Option<PathBuf>,
}

fn main() -> io::Result<()> {
    life::arm();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let scene = std::env::var_os("D").map(|dir| PathBuf::from(dir).join("ids")).filter(|ids| ids.exists());
    if let [inner, until, cap, seats_fd] = args.as_slice()
        && inner == "--link"
    {
        let number = |text: &String| text.parse::<u64>().map_err(|_| life::usage("--link UNTIL CAP FD"));
        let seats = OpenOptions::new().read(true).write(true).open(format!("/proc/self/fd/{seats_fd}"))?;
        // The inherited descriptor stays what the next link opens.
        let (until_ms, cap, number) = (number(until)?, number(cap)? as u32, number(seats_fd)? as i32);
        Bomb { kind: Kind::Exec, cap, until_ms, seats, number, scene }.member();
    }
    let mut args = args.iter().map(String::as_str);
    let kind = args.next().and_then(Kind::named);
    let kind =
        kind.ok_or_else(|| life::usage("kc-bomb wide|deep|exec|reparent|term [--cap N] [--seconds S]"))?;
    let (mut cap, mut seconds) = (400, Duration::from_secs(20));
    while let Some(arg) = args.next() {
        let value = args.next().ok_or_else(|| life::usage("an option without its value"))?;
        match arg {
            "--cap" => cap = value.parse::<u32>().map_err(|_| life::usage("--cap N"))?.min(MOST),
            "--seconds" => seconds = life::seconds(value)?,
            _ => return Err(life::usage("the options are --cap and --seconds")),
        }
    }
    // Without close-on-exec: the links of the chain `exec` find it by its number.
    let seats = File::from(rustix::fs::memfd_create("kc-bomb", rustix::fs::MemfdFlags::empty())?);
    let number = seats.as_raw_fd();
    Bomb { kind, cap, until_ms: life::now_ms() + seconds.as_millis() as u64, seats, number, scene }.lead()
}

impl Bomb {
    /// The first process: starts the first ones, says when they are many, and starts over when they are gone.
    fn lead(&self) -> io::Result<()> {
        self.arm();
        let mut said = false;
        let mut children = 0;
        while self.is_on() {
            children -= reaped();
            let wanted = if self.kind == Kind::Wide { self.cap } else { u32::from(self.is_empty()) };
            while children < wanted && self.spawn() {
                children += 1;
            }
            if !said && (self.count() >= self.cap / 2 || self.has_failed()) {
                life::say("ready")?;
                said = true;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Forks a process that becomes a member; false if that failed.
    fn spawn(&self) -> bool {
        match fork() {
            Ok(Forked::Child) => {
                self.arm();
                self.begin();
            }
            Ok(Forked::Parent(_)) => true,
            Err(_) => {
                self.note_failure();
                false
            }
        }
    }

    /// The first steps of a new process, by which the kinds differ.
    fn begin(&self) -> ! {
        match self.kind {
            Kind::Wide | Kind::Deep => self.member(),
            Kind::Exec => {
                let link = [self.until_ms.to_string(), self.cap.to_string(), self.number.to_string()];
                if let Ok(own) = std::env::current_exe() {
                    // It returns only if it failed, for lack of memory or descriptors; then there is one less.
                    let _ = Command::new(own).arg("--link").args(link).exec();
                }
                exit_now(1)
            }
            Kind::Reparent => {
                // Double-forked into a session of its own. Neither can fail in a way that matters to a bomb.
                let _ = setsid();
                match fork() {
                    Ok(Forked::Child) => {
                        self.arm();
                        self.member()
                    }
                    Ok(Forked::Parent(_)) => exit_now(0),
                    Err(_) => {
                        self.note_failure();
                        exit_now(1)
                    }
                }
            }
            Kind::Term => {
                let _ = setsid();
                for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
                    let _ = ignore_signal(signal.as_raw());
                }
                self.member()
            }
        }
    }

    /// A process with a seat, which goes on forking.
    fn member(&self) -> ! {
        self.arm();
        let seat = self.sit_down();
        match self.kind {
            Kind::Wide => life::sleep_until(self.until_ms),
            Kind::Deep | Kind::Exec => self.refill(1),
            Kind::Term => self.refill(3),
            Kind::Reparent => self.hop(seat),
        }
        exit_now(0)
    }

    /// Keeps so many children alive.
    fn refill(&self, wanted: u32) {
        let mut children = 0;
        while self.is_on() {
            children -= reaped();
            if children < wanted && self.has_room() && self.spawn() {
                children += 1;
            } else if children == wanted && wanted == 1 {
                // A link of a chain has nothing to do until its child dies.
                if rustix::process::wait(WaitOptions::empty()).is_ok() {
                    children = 0;
                }
            } else {
                std::thread::sleep(NO_ROOM);
            }
        }
    }

    /// Changes its number every few milliseconds, and leaves another one behind wherever there is room.
    fn hop(&self, mut seat: u32) {
        let slow = (Duration::from_secs(1) * self.cap / SLOW_HOPS_PER_SECOND).max(FAST_HOP);
        while self.is_on() {
            // Looking for room is cheap and happens more often than hopping.
            let ticks = if seat < FAST_HOPPERS { 1 } else { 4 };
            for _ in 0..ticks {
                std::thread::sleep(if ticks == 1 { FAST_HOP } else { slow / ticks });
                if self.has_room() {
                    self.spawn();
                }
                reaped();
            }
            // The seat is left to the child. If another one was faster the child must not wait for the next: a crowd
            // of waiting ones has no bound.
            if leave_seats(&self.seats).is_err() {
                exit_now(1);
            }
            match fork() {
                Ok(Forked::Child) => {
                    self.arm();
                    if !self.take(seat) {
                        seat = self.sit_down();
                    }
                }
                Ok(Forked::Parent(_)) => exit_now(0),
                Err(_) => {
                    self.note_failure();
                    seat = self.sit_down();
                }
            }
        }
    }

    /// The watchdog of this process, a second or two after the deadline that it should keep by itself.
    fn arm(&self) {
        alarm(self.until_ms.saturating_sub(life::now_ms()).div_ceil(1000) as u32 + 1);
    }

    fn is_on(&self) -> bool {
        life::now_ms() < self.until_ms && self.scene.as_ref().is_none_or(|ids| ids.exists())
    }

    /// Takes a free seat, looking from a place of its own so that a crowd does not queue at the first; exits
    /// where there is none.
    fn sit_down(&self) -> u32 {
        // Those that come by the thousand look at a few only: the kernel walks a list for each look.
        let tries = if self.kind == Kind::Reparent { self.cap.min(16) } else { self.cap };
        let from = std::process::id().wrapping_mul(2_654_435_761) % self.cap.max(1);
        let free = (0..tries).map(|n| (from + n) % self.cap).find(|seat| self.take(*seat));
        free.unwrap_or_else(|| exit_now(0))
    }

    fn take(&self, seat: u32) -> bool {
        take_seat(&self.seats, seat).unwrap_or(false)
    }

    /// Looks at four places only: a full scan by every process would cost more than the forks.
    fn has_room(&self) -> bool {
        let from = (life::now_ms() as u32 ^ std::process::id()).wrapping_mul(2_654_435_761);
        (0..4_u32).any(|n| {
            let seat = from.wrapping_add(n.wrapping_mul(97)) % self.cap.max(1);
            !seat_taken(&self.seats, seat).unwrap_or(true)
        })
    }

    fn count(&self) -> u32 {
        (0..self.cap).filter(|seat| seat_taken(&self.seats, *seat).unwrap_or(false)).count() as u32
    }

    fn is_empty(&self) -> bool {
        !(0..self.cap).any(|seat| seat_taken(&self.seats, seat).unwrap_or(false))
    }

    fn note_failure(&self) {
        // Only its length is read; that it cannot be written changes nothing but the word `ready`.
        let _ = (&self.seats).write(b"!");
    }

    fn has_failed(&self) -> bool {
        self.seats.metadata().is_ok_and(|meta| meta.len() > 0)
    }
}

/// How many children have died since the last look; they are reaped.
fn reaped() -> u32 {
    let mut count = 0;
    while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {
        count += 1;
    }
    count
}
