//! The server in a program of one's own: `killcord::init()` first in `main`, since the program is its own warden, and then
//! nothing but serving.
//!
//!     cargo run -p killcord-mcp --example serve

fn main() {
    killcord::init();
    std::process::exit(killcord_mcp::serve(None))
}
