/** Which page an address means. */

import type { ComponentChildren } from "preact";
import { Empty, Head } from "./parts/basics";
import { DeadLetters } from "./pages/dead";
import { Limits } from "./pages/limits";
import { Operations } from "./pages/operations";
import { Overview } from "./pages/overview";
import { QueuePage } from "./pages/queue";
import { Queues } from "./pages/queues";
import { SchedulePage } from "./pages/schedule";
import { ScheduleForm } from "./pages/schedule-form";
import { Schedules } from "./pages/schedules";
import { Submit } from "./pages/submit";
import { TaskPage } from "./pages/task";
import { Tasks } from "./pages/tasks";
import { Workers } from "./pages/workers";
import { WorkflowPage } from "./pages/workflow";
import { Workflows } from "./pages/workflows";
import type { Route } from "./route";

interface Page {
  title: string;
  body: ComponentChildren;
}

export function pageOf({ path, query }: Route): Page {
  const [area = "", name] = path;
  switch (area) {
    case "":
      return { title: "Overview", body: <Overview /> };
    case "queues":
      return name === undefined ? { title: "Queues", body: <Queues /> } : { title: name, body: <QueuePage name={name} /> };
    case "tasks":
      return name === undefined ? { title: "Tasks", body: <Tasks filter={query.get("filter") ?? ""} /> } : { title: `Task ${name}`, body: <TaskPage id={name} /> };
    case "dead":
      return { title: "Dead letters", body: <DeadLetters /> };
    case "schedules":
      return name === undefined ? { title: "Schedules", body: <Schedules /> } : { title: name, body: <SchedulePage id={name} /> };
    case "schedule": {
      const edit = query.get("edit") ?? undefined;
      return { title: edit ? `Edit ${edit}` : "New schedule", body: <ScheduleForm id={edit} /> };
    }
    case "workflows":
      return name === undefined ? { title: "Workflows", body: <Workflows /> } : { title: name, body: <WorkflowPage id={name} /> };
    case "workers":
      return { title: "Workers", body: <Workers /> };
    case "limits":
      return { title: "Limits", body: <Limits scope={query.get("scope") ?? ""} /> };
    case "operations":
      return { title: "Operations", body: <Operations /> };
    case "submit":
      return { title: "Submit a task", body: <Submit from={query.get("from") ?? undefined} /> };
    default:
      return { title: "Not found", body: <Lost /> };
  }
}

function Lost() {
  return (
    <>
      <Head title="Not found" />
      <Empty title="There is no such page" icon="search">
        <a href="#/">Go to the overview</a>
      </Empty>
    </>
  );
}
