# Short names for what people do all day. Nothing needs `just`: each recipe is one command to type.

# list the recipes
default:
    @just --list

# every test, with all their set-up; arguments go to nextest
test *args:
    tools/test {{ args }}

# everything a change has to pass
ci:
    bash .ci/run

# a tree that nothing else ends, ended
demo:
    cargo run --release -- demo

# what holds on this machine
doctor *args:
    cargo run --release -- doctor {{ args }}

# what killcord costs beside its peers (or --quick, or by section), and one table
bench *args:
    tools/bench {{ args }}

# hostile bytes for every reader; arguments are seconds and targets
fuzz *args:
    tools/fuzz {{ args }}

# an hour (or so many seconds) of owners of every kind, whose processes are killed at random
stress *args:
    tools/stress {{ args }}

# every campaign in its short form (or --full, or by name), and one table
prove *args:
    tools/prove {{ args }}

# lay out the code
fmt:
    cargo fmt --all

# warnings are errors
lint:
    cargo clippy --workspace --all-targets --all-features -- -D warnings
