// Error boundary of one pane: the rest of the console keeps working.
import { Button } from "@patternfly/react-core";
import { Component, type ReactNode } from "react";
import { t } from "../text/text";
import { StateBlock } from "./states";

interface Props {
  children: ReactNode;
  /** A new value clears the error: the pane shows something else. */
  resetKey?: string;
}

export class PaneBoundary extends Component<Props, { error: Error | null }> {
  override state: { error: Error | null } = { error: null };

  static getDerivedStateFromError(error: Error) {
    return { error };
  }
  override componentDidUpdate(before: Props) {
    if (this.state.error && before.resetKey !== this.props.resetKey) this.setState({ error: null });
  }
  override render() {
    const { error } = this.state;
    if (!error) return this.props.children;
    return (
      <StateBlock
        status="danger"
        title={t("state.crashed")}
        body={t("state.crashedBody", { detail: error.message })}
        action={
          <Button variant="secondary" onClick={() => this.setState({ error: null })}>
            {t("state.retry")}
          </Button>
        }
      />
    );
  }
}
