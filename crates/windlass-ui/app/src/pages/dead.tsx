/** Dead letters, those of one cause together. */

import { useState } from "preact/hooks";
import type { DeadGroup, DeadGroups } from "../api/types";
import { useResource } from "../data";
import { count, plural } from "../format";
import { Act } from "../parts/act";
import { Ago, Button, Card, Empty, Head, Problem, Skeleton } from "../parts/basics";
import { link } from "../route";

export function DeadLetters() {
  const groups = useResource<DeadGroups>("/api/v1/dlq/groups");
  const [acting, setActing] = useState<{ filter: string; action: "retry" | "delete" }>();
  const items = groups.data?.items;
  return (
    <>
      <Head title="Dead letters" sub="Tasks that failed for good. Those with the same error, but for its numbers and names, stand together.">
        <a class="button plain" href={link(["tasks"], { filter: "state:dead_letter" })}>
          As a list
        </a>
      </Head>
      <Problem error={groups.error} />
      {groups.data && !groups.data.complete && <p class="note">There are more: the newest {count(groups.data.scanned)} were looked at.</p>}
      {!groups.data && !groups.error && (
        <Card>
          <Skeleton lines={6} height={28} />
        </Card>
      )}
      {items?.length === 0 && (
        <Card>
          <Empty icon="check" title="No dead letters">
            <p>A task ends here when its last attempt has failed. It can be retried from here, alone or with all of its kind.</p>
          </Empty>
        </Card>
      )}
      <ul class="groups">
        {items?.map((group) => (
          <Group key={group.fingerprint + group.type + group.queue} group={group} act={(action) => setActing({ filter: groupFilter(group), action })} />
        ))}
      </ul>
      {acting && (
        <Act
          filter={acting.filter}
          action={acting.action}
          onClose={() => {
            setActing(undefined);
            groups.refresh();
          }}
        />
      )}
    </>
  );
}

function groupFilter(group: DeadGroup): string {
  return `state:dead_letter fingerprint:${group.fingerprint}`;
}

function Group({ group, act }: { group: DeadGroup; act: (action: "retry" | "delete") => void }) {
  return (
    <li class="card group">
      <div class="group-count">
        <b class="num">{count(group.count)}</b>
        <span class="faint">{group.count === 1 ? "task" : "tasks"}</span>
      </div>
      <div class="group-text">
        <p class="group-error">{group.sample_error || "no error text"}</p>
        <p class="faint group-facts">
          <a href={link(["tasks"], { filter: `state:dead_letter type:${group.type}` })}>{group.type}</a>
          <span>
            in <a href={link(["queues", group.queue])}>{group.queue}</a>
          </span>
          <span>
            last <Ago at={group.last_at} />
          </span>
          <span>
            first <Ago at={group.first_at} />
          </span>
          <a href={link(["tasks", group.sample_task_id])}>latest task</a>
        </p>
      </div>
      <div class="row group-tools">
        <a class="button quiet" href={link(["tasks"], { filter: groupFilter(group) })}>
          Show
        </a>
        <Button tone="quiet" icon="cancel" label={`Delete ${plural(group.count, "task")} of ${group.type}`} onClick={() => act("delete")} />
        <Button icon="retry" onClick={() => act("retry")} label={`Retry ${plural(group.count, "task")} of ${group.type}`}>
          Retry {count(group.count)}
        </Button>
      </div>
    </li>
  );
}
