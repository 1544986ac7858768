import {
  Alert,
  Button,
  ClipboardCopy,
  Form,
  FormGroup,
  FormSelect,
  FormSelectOption,
  Modal,
  ModalBody,
  ModalFooter,
  ModalHeader,
  NumberInput,
  Slider,
  TextInput,
} from "@patternfly/react-core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { useAccount } from "../account/account";
import {
  type Allocation,
  type AllocationRequest,
  api,
  idempotencyKey,
  unwrap,
} from "../api/client";
import { useRows } from "../api/queries";
import { gib } from "../format";
import { keepLease } from "./leases";

function AllocationResult({ allocation }: { allocation: Allocation }) {
  const current = useRows("allocation").find((a) => a.id === allocation.id) ?? allocation;
  const locations = current.partitions.map((p) => `GPU ${p.gpu_index} of ${p.node}`).join(", ");
  return (
    <>
      {current.state === "queued" ? (
        <Alert variant="warning" isInline title="Queued" component="p">
          {current.waiting_reason}
        </Alert>
      ) : (
        <Alert variant="success" isInline title={`${current.state}: ${locations}`} component="p" />
      )}
      <p className="bb-gap">
        The allocation is kept while this page is open or a program uses it. Run a program:
      </p>
      <ClipboardCopy isReadOnly hoverTip="Copy" clickTip="Copied" textAriaLabel="Command">
        {`busbar run --allocation ${current.id} -- python train.py`}
      </ClipboardCopy>
    </>
  );
}

export function AllocateDialog({ onClose }: { onClose: () => void }) {
  const { me } = useAccount();
  const pools = useRows("pool");
  const gpus = useRows("gpu");
  const projects = [
    ...new Set(["default", ...me.roles.flatMap((r) => (r.project ? [r.project] : []))]),
  ];
  const [name, setName] = useState("");
  const [pool, setPool] = useState("default");
  const [project, setProject] = useState("default");
  const [count, setCount] = useState(1);
  const [percent, setPercent] = useState(25);
  const largest = Math.max(0, ...gpus.filter((g) => g.pool === pool).map((g) => g.memory_bytes));
  const body = { name, pool, project, gpu_count: count, percent } as AllocationRequest; // omitted fields have defaults
  const create = useMutation({
    mutationFn: async () =>
      unwrap(
        await api.POST("/api/v1/allocations", { body, headers: idempotencyKey() }),
      ) as Allocation,
    onSuccess: (a) => keepLease(a.id),
  });
  const flags = `${pool === "default" ? "" : ` --pool ${pool}`}${project === "default" ? "" : ` --project ${project}`}`;
  return (
    <Modal isOpen variant="small" onClose={onClose} aria-labelledby="allocate-title">
      <ModalHeader title="Allocate GPUs" labelId="allocate-title" />
      <ModalBody>
        {create.data ? (
          <AllocationResult allocation={create.data} />
        ) : (
          <Form
            id="allocate"
            onSubmit={(e) => {
              e.preventDefault();
              create.mutate();
            }}
          >
            {create.error && (
              <Alert variant="danger" isInline title={create.error.message} component="p" />
            )}
            <FormGroup label="Name" fieldId="name">
              <TextInput
                id="name"
                value={name}
                onChange={(_, v) => setName(v)}
                placeholder="For example: training"
                autoFocus
              />
            </FormGroup>
            <FormGroup label="Pool" fieldId="pool">
              <FormSelect id="pool" value={pool} onChange={(_, v) => setPool(v)}>
                {pools.map((p) => (
                  <FormSelectOption key={p.id} value={p.name} label={p.name} />
                ))}
              </FormSelect>
            </FormGroup>
            {projects.length > 1 && (
              <FormGroup label="Project" fieldId="project">
                <FormSelect id="project" value={project} onChange={(_, v) => setProject(v)}>
                  {projects.map((p) => (
                    <FormSelectOption key={p} value={p} label={p} />
                  ))}
                </FormSelect>
              </FormGroup>
            )}
            <FormGroup label="GPUs" fieldId="count">
              <NumberInput
                id="count"
                value={count}
                min={1}
                max={16}
                inputAriaLabel="Number of GPUs"
                minusBtnAriaLabel="Fewer GPUs"
                plusBtnAriaLabel="More GPUs"
                onMinus={() => setCount(Math.max(1, count - 1))}
                onPlus={() => setCount(Math.min(16, count + 1))}
                onChange={(e) =>
                  setCount(
                    Math.min(16, Math.max(1, Number((e.target as HTMLInputElement).value) || 1)),
                  )
                }
              />
            </FormGroup>
            <FormGroup
              label={`Of each: ${percent} %${largest ? `, up to ${gib((largest * percent) / 100)}` : ""}`}
              fieldId="percent"
            >
              <Slider
                id="percent"
                value={percent}
                min={1}
                max={100}
                step={1}
                thumbAriaLabel="Percent of each GPU"
                onChange={(_, slid, typed) =>
                  setPercent(Math.min(100, Math.max(1, Math.round(typed ?? slid))))
                }
                isInputVisible
                showBoundaries={false}
                inputValue={percent}
                inputLabel="%"
                inputAriaLabel="Percent of each GPU"
              />
            </FormGroup>
            <FormGroup label="Equivalent command" fieldId="as-command">
              <ClipboardCopy isReadOnly hoverTip="Copy" clickTip="Copied" textAriaLabel="Command">
                {`busbar run -n ${count} -p ${percent}${flags} -- python train.py`}
              </ClipboardCopy>
            </FormGroup>
            <FormGroup label="Equivalent API request" fieldId="as-call">
              <ClipboardCopy
                isReadOnly
                isCode
                hoverTip="Copy"
                clickTip="Copied"
                textAriaLabel="API call"
              >
                {`POST /api/v1/allocations ${JSON.stringify(body)}`}
              </ClipboardCopy>
            </FormGroup>
          </Form>
        )}
      </ModalBody>
      <ModalFooter>
        {!create.data && (
          <Button
            variant="primary"
            type="submit"
            form="allocate"
            isLoading={create.isPending}
            isDisabled={create.isPending}
          >
            Allocate
          </Button>
        )}
        <Button variant={create.data ? "primary" : "link"} onClick={onClose}>
          {create.data ? "Close" : "Cancel"}
        </Button>
      </ModalFooter>
    </Modal>
  );
}
