//! Prints the tables of the properties of generated traces, as docs/GENERATED.md has them:
//!
//! ```text
//! cargo run --release -p suites --example properties
//! ```

fn main() {
    print!("{}", suites::generated::markdown());
}
