// Rotation of the certificate authority or of the key that signs tickets, phase by phase.
import { Button, Label, List, ListItem } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { change } from "../actions/change";
import { type Schema, api, unwrap } from "../api/client";
import { dateTime } from "../model/format";
import { coded, t } from "../text/text";
import { ask } from "../ui/confirm";
import { Panel } from "../ui/Panel";
import { QueryState } from "../ui/states";

type Rotation = Schema<"KeyRotation">;
type RotationKind = Rotation["kind"];
const at = (kind: RotationKind) => ({ params: { path: { kind } } });

const steps = {
  start: async (kind: RotationKind) =>
    unwrap(await api.POST("/api/v1/key-rotations/{kind}/start", { ...at(kind), body: {} })),
  advance: async (kind: RotationKind) =>
    unwrap(
      await api.POST("/api/v1/key-rotations/{kind}/advance", {
        ...at(kind),
        body: { force: false },
      }),
    ),
  abort: async (kind: RotationKind) =>
    unwrap(await api.POST("/api/v1/key-rotations/{kind}/abort", at(kind))),
};

function askStep(kind: RotationKind, step: keyof typeof steps) {
  const action = t(`rotation.${step}`);
  const name = t(`rotation.${kind}`);
  ask({
    title: t("confirm.title", { action, name }),
    body: <p>{t(`rotation.${step}Help`)}</p>,
    verb: action,
    run: () => change(t("result.done", { action, name }), () => steps[step](kind)),
  });
}

function Phase({ rotation: r }: { rotation: Rotation }) {
  return (
    <span>
      <Label isCompact status={r.phase === "idle" ? "success" : "info"}>
        {coded("rotation.phase", r.phase, r.phase)}
      </Label>{" "}
      {r.ready_at && (
        <span className="bb-quiet">{t("rotation.ready", { time: dateTime(r.ready_at) })}</span>
      )}
    </span>
  );
}

function Keys({ keys }: Pick<Rotation, "keys">) {
  return (
    <List>
      {keys.map((k) => (
        <ListItem key={k.fingerprint}>
          <code>{k.fingerprint.slice(0, 24)}</code> {k.signs && <b>{t("rotation.signs")}</b>}{" "}
          {k.expires_at && t("rotation.expires", { time: dateTime(k.expires_at) })}
        </ListItem>
      ))}
    </List>
  );
}

function Steps({ kind, phase }: { kind: RotationKind; phase: Rotation["phase"] }) {
  return (
    <span className="bb-rowend">
      {phase === "idle" ? (
        <Button variant="secondary" onClick={() => askStep(kind, "start")}>
          {t("rotation.start")}
        </Button>
      ) : (
        <>
          <Button variant="secondary" onClick={() => askStep(kind, "advance")}>
            {t("rotation.advance")}
          </Button>
          <Button variant="secondary" isDanger onClick={() => askStep(kind, "abort")}>
            {t("rotation.abort")}
          </Button>
        </>
      )}
    </span>
  );
}

export function RotationPanel({ kind }: { kind: RotationKind }) {
  const rotation = useQuery({
    queryKey: ["detail", "rotation", kind],
    queryFn: () => api.GET("/api/v1/key-rotations/{kind}", at(kind)).then(unwrap),
  });
  return (
    <Panel title={t(`rotation.${kind}`)}>
      <QueryState query={rotation}>
        {(r) => (
          <div className="bb-stack">
            <Phase rotation={r} />
            {r.pending_nodes.length > 0 && (
              <p>{t("rotation.pending", { nodes: r.pending_nodes.join(", ") })}</p>
            )}
            <Keys keys={r.keys} />
            <Steps kind={kind} phase={r.phase} />
          </div>
        )}
      </QueryState>
    </Panel>
  );
}
