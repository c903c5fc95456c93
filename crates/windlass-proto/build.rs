//! Generates the gRPC code from `proto/`. protox reads the files, so nobody needs to install protoc.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    #[cfg(feature = "grpc")]
    generate()?;
    Ok(())
}

#[cfg(feature = "grpc")]
fn generate() -> Result<(), Box<dyn std::error::Error>> {
    use prost::Message;

    let files = ["task", "error", "tasks", "worker", "schedule", "admin"]
        .map(|name| format!("windlass/v1/{name}.proto"));
    let descriptors = protox::compile(files, ["proto"])?;
    let out = std::path::PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("windlass.v1.bin"), descriptors.encode_to_vec())?;
    // Payloads are slices of the message that they came in.
    tonic_prost_build::configure().bytes(".").compile_fds(descriptors)?;
    Ok(())
}
