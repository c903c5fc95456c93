/** Line icons on a grid of 24, drawn for this page. */

const PATHS = {
  overview: "M4 13h6V4H4zM14 20h6v-9h-6zM14 8h6V4h-6zM4 20h6v-3H4z",
  queues: "M4 6h16M4 12h16M4 18h10",
  tasks: "M9 6h11M9 12h11M9 18h11M4 6l1 1 1.8-2M4 12l1 1 1.8-2M4 18l1 1 1.8-2",
  dead: "M12 3l9.5 17h-19zM12 10v4.5M12 17.2v.3",
  schedules: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM12 7v5l3.5 2",
  workflows: "M4 5h5v4H4zM15 5h5v4h-5zM9.5 15h5v4h-5zM6.5 9v3H12v3M17.5 9v3H12",
  limits: "M4.5 17.5a9 9 0 1 1 15 0M12 14.5l4-5M10.7 17.5h2.6",
  workers: "M5 5h14v10H5zM9 19h6M12 15v4M9 8v4M12 8v4M15 8v4",
  operations: "M4 7h10M18 7h2M4 17h2M10 17h10M16 4.8v4.4M8 14.8v4.4",
  submit: "M12 5v14M5 12h14",
  sun: "M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM12 3v1.5M12 19.5V21M3 12h1.5M19.5 12H21M5.6 5.6l1.1 1.1M17.3 17.3l1.1 1.1M5.6 18.4l1.1-1.1M17.3 6.7l1.1-1.1",
  moon: "M20 14.2A8.2 8.2 0 0 1 9.8 4 8.2 8.2 0 1 0 20 14.2z",
  search: "M10.5 17a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13zM15.3 15.3L20 20",
  pause: "M8 5v14M16 5v14",
  play: "M7 5l12 7-12 7z",
  retry: "M20 5v5h-5M19.5 10a8 8 0 1 0 .3 4.5",
  cancel: "M6 6l12 12M18 6L6 18",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  check: "M5 12.5l4.5 4.5L19 7",
  edit: "M4 20l1-4.5L16.5 4 20 7.5 8.5 19zM14 6.5L17.5 10",
  right: "M9 5l7 7-7 7",
  left: "M15 5l-7 7 7 7",
  help: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM9.7 9.3a2.4 2.4 0 1 1 3.4 2.5c-.8.4-1.1.9-1.1 1.7M12 16.4v.2",
  book: "M5 4h11a3 3 0 0 1 3 3v13H8a3 3 0 0 1-3-3zM5 17a3 3 0 0 1 3-3h11",
  inbox: "M4 13l2.5-8h11L20 13v6H4zM4 13h5l1.5 2.5h3L15 13h5",
  menu: "M4 7h16M4 12h16M4 17h16",
  bolt: "M13 3L5 13.5h6L10.5 21 19 10.5h-6z",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg class="icon" width={size} height={size} viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}
