//! Generates the tests against PostgreSQL if `SKILLS_TEST_STORE` names a database.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=SKILLS_TEST_STORE");
    println!("cargo::rustc-check-cfg=cfg(test_postgres)");
    let url = std::env::var("SKILLS_TEST_STORE").unwrap_or_default();
    if url.starts_with("postgres") && std::env::var_os("CARGO_FEATURE_POSTGRES").is_some() {
        println!("cargo::rustc-cfg=test_postgres");
    }
}
