//! The dashboard as files in the binary.
//!
//! Its source is in `app/`; `npm run build` there writes `dist/`, which is committed, so that `cargo build` needs no node.
//! `cargo xtask test` builds it again and compares. Each file comes with a compressed copy made by that build.

/// A file of the dashboard.
#[derive(Debug, Clone, Copy)]
pub struct Asset {
    /// Below the root of the server.
    pub path: &'static str,
    pub media_type: &'static str,
    pub bytes: &'static [u8],
    /// The same, by gzip.
    pub gzip: &'static [u8],
}

macro_rules! asset {
    ($path:literal, $file:literal, $media_type:literal) => {
        Asset {
            path: $path,
            media_type: $media_type,
            bytes: include_bytes!(concat!("../dist/", $file)),
            gzip: include_bytes!(concat!("../dist/", $file, ".gz")),
        }
    };
}

pub const ASSETS: [Asset; 6] = [
    asset!("/", "index.html", "text/html; charset=utf-8"),
    asset!("/app.js", "app.js", "text/javascript; charset=utf-8"),
    asset!("/charts.js", "charts.js", "text/javascript; charset=utf-8"),
    asset!("/first.js", "first.js", "text/javascript; charset=utf-8"),
    asset!("/app.css", "app.css", "text/css; charset=utf-8"),
    asset!("/icon.svg", "icon.svg", "image/svg+xml"),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// All of it. A page without charts stands with a good half of that.
    const GZIP_BYTES_MAX: usize = 150_000;

    #[test]
    fn the_dashboard_stays_small() {
        let bytes: usize = ASSETS.iter().map(|asset| asset.gzip.len()).sum();
        assert!(bytes <= GZIP_BYTES_MAX, "{bytes} bytes by gzip");
    }

    #[test]
    fn every_file_that_was_built_is_embedded() {
        let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/dist")).unwrap();
        let files: Vec<Vec<u8>> = folder.map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect();
        assert_eq!(files.len(), 2 * ASSETS.len());
        for file in files {
            assert!(ASSETS.iter().any(|asset| asset.bytes == file || asset.gzip == file));
        }
    }

    #[test]
    fn the_page_has_nothing_inline_and_nothing_from_elsewhere() {
        let page = std::str::from_utf8(ASSETS[0].bytes).unwrap();
        assert!(page.contains(r#"src="./app.js""#) && page.contains(r#"href="./app.css""#));
        for refused in ["<style", "style=", "http://", "https://", "onload="] {
            assert!(!page.contains(refused), "{refused}");
        }
        assert!(page.split("<script").skip(1).all(|script| script.contains("></script>")), "{page}");
    }
}
