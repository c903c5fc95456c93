import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { defineConfig, type Plugin } from "vite";

const OUT = "../dist";

/** Writes a compressed copy beside each file, so that the server never compresses anything. */
function compressed(): Plugin {
  let folder = OUT;
  return {
    name: "compressed",
    apply: "build",
    configResolved(config) {
      folder = config.build.outDir;
    },
    closeBundle() {
      for (const name of readdirSync(folder)) {
        writeFileSync(`${folder}/${name}.gz`, gzipSync(readFileSync(`${folder}/${name}`), { level: 9 }));
      }
    },
  };
}

/** `npm run dev` shows the page as it is being written, over the data of a running broker. */
function proxied(server: string) {
  return { "/api": server, "/ws": { target: server, ws: true, changeOrigin: true, headers: { origin: server } } };
}

// File names are stable, because they are embedded in the binary by name; the server tells versions apart by their ETag.
export default defineConfig({
  base: "./",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  plugins: [compressed()],
  build: {
    outDir: OUT,
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    rollupOptions: {
      output: {
        entryFileNames: "app.js",
        chunkFileNames: (chunk) => (chunk.name.startsWith("uPlot") ? "charts.js" : "[name].js"),
        assetFileNames: (asset) => (asset.names.some((name) => name.endsWith(".css")) ? "app.css" : "[name][extname]"),
      },
    },
  },
  server: { proxy: proxied(process.env.WINDLASS_SERVER ?? "http://127.0.0.1:8080") },
});
