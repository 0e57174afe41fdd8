"""What a schedule takes on a fabric at given rates: its transfers as flows that share links by max-min
fairness."""
