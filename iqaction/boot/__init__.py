"""Starts the endpoint that is to be judged, and stops it again. Knows no plan and no verdict.

``booting.boot`` starts, ``stopping.stop`` stops. The two are usually different processes of one
job: what they share is a lease, a small file that says what was started and by whom. A lease
outlives a job that was killed, and the next boot on the same runner stops what it names.

``_base``         what goes in and what comes out
``booting``       reap, lease, start, wait
``command``       an endpoint started by a shell command
``compose``       an endpoint started by docker compose
``environment``   what a started program may see (pure)
``lease``         who started what, and what was left behind
``logs``          a foreign log, safe to print
``machine``       what the endpoint runs on, for the evidence
``processes``     the system's processes: finding ours, and only ours
``programs``      short programs that are waited for
``readiness``     ready is what has generated, and nothing less
``stopping``      end what a lease names
"""
