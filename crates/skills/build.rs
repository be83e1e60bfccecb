//! Passes the target triple on, for the manifest.

fn main() {
    let target = std::env::var("TARGET").unwrap_or_else(|_| "unknown".to_owned());
    println!("cargo:rustc-env=SKILLS_TARGET={target}");
    println!("cargo:rerun-if-changed=build.rs");
}
